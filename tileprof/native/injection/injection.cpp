// Recording a program that has no Python: this library is loaded into it by CUDA's driver or by NVTX,
// at the first use of either, and runs an interpreter there that records as in any other program.
//
// In: CUDA_INJECTION64_PATH and NVTX_INJECTION64_PATH name this library, and TILEPROF_INTERPRETER the
// interpreter's shared library and its executable (profiler/native_program/launching.py). Out: a
// session that begins before the driver does anything, and is finalized when the program exits.
//
// Nothing of the program's is changed: neither its locale, nor its streams, nor its signals.
#include <Python.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <unistd.h>

namespace {

#define API(name) decltype(&::name) name = nullptr;
// Functions of the interpreter's library, which nobody links this one to.
struct Python {
  API(PyPreConfig_InitPythonConfig)
  API(Py_PreInitialize)
  API(PyConfig_InitPythonConfig)
  API(PyConfig_SetBytesString)
  API(PyConfig_Clear)
  API(Py_InitializeFromConfig)
  API(PyStatus_Exception)
  API(PyRun_SimpleStringFlags)
  API(PyEval_SaveThread)
  API(PyGILState_Ensure)
  API(PyGILState_Release)
  API(Py_IsInitialized)
};
#undef API

constexpr const char *kAlgebraThreads = "OPENBLAS_NUM_THREADS";

// A library of the program's may be in the place of another one that an import needs.
constexpr const char *kBegin = R"(
import sys
try:
    from tileprof.profiler.native_program import recording
except Exception as error:
    recording = None
    sys.stderr.write(f"tileprof: the program is not recorded: {type(error).__name__}: {error}\n")
if recording is not None:
    recording.begin()
)";
constexpr const char *kFinish = R"(
if recording is not None:
    recording.finish()
)";

Python python;
pid_t recorded = 0;

bool complain(const char *what, const char *why) {
  std::fprintf(stderr, "tileprof: the program is not recorded: %s%s\n", what, why);
  return false;
}

bool load(const std::string &library) {
  // For all that is loaded later: extension modules are linked to no library of the interpreter.
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle) return complain("", dlerror());
#define FIND(name)                                                                                 \
  python.name = reinterpret_cast<decltype(python.name)>(dlsym(handle, #name));                     \
  if (!python.name) return complain("the library of Python lacks ", #name);
  FIND(PyPreConfig_InitPythonConfig)
  FIND(Py_PreInitialize)
  FIND(PyConfig_InitPythonConfig)
  FIND(PyConfig_SetBytesString)
  FIND(PyConfig_Clear)
  FIND(Py_InitializeFromConfig)
  FIND(PyStatus_Exception)
  FIND(PyRun_SimpleStringFlags)
  FIND(PyEval_SaveThread)
  FIND(PyGILState_Ensure)
  FIND(PyGILState_Release)
  FIND(Py_IsInitialized)
#undef FIND
  return true;
}

bool initialize(const char *executable) {
  PyPreConfig before;
  python.PyPreConfig_InitPythonConfig(&before);
  before.configure_locale = 0;
  before.coerce_c_locale = before.coerce_c_locale_warn = 0;
  before.utf8_mode = 1;
  PyStatus status = python.Py_PreInitialize(&before);
  if (python.PyStatus_Exception(status)) return complain("Python: ", status.err_msg);
  PyConfig config;
  python.PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  config.configure_c_stdio = 0;
  config.buffered_stdio = 1;
  config.parse_argv = 0;
  status = python.PyConfig_SetBytesString(&config, &config.program_name, executable);
  if (!python.PyStatus_Exception(status)) status = python.Py_InitializeFromConfig(&config);
  python.PyConfig_Clear(&config);
  if (python.PyStatus_Exception(status)) return complain("Python: ", status.err_msg);
  return true;
}

// Called by `exit`. What a forked child inherits is its parent's recording.
void finish() {
  if (getpid() != recorded || !python.Py_IsInitialized()) return;
  const PyGILState_STATE state = python.PyGILState_Ensure();
  python.PyRun_SimpleStringFlags(kFinish, nullptr);
  python.PyGILState_Release(state);
}

bool start() {
  const char *told = std::getenv("TILEPROF_INTERPRETER");
  if (!told) return false;  // a child of the program that has cleaned its environment
  const std::string both = told;
  const size_t between = both.find('\n');
  if (between == both.npos) return complain("TILEPROF_INTERPRETER is damaged", "");
  // A second interpreter's library would take the place of functions of the program's own.
  if (dlsym(RTLD_DEFAULT, "Py_IsInitialized"))
    return complain("it runs Python itself; give `tileprof run` the script", "");
  if (!load(both.substr(0, between))) return false;
  if (!initialize(both.c_str() + between + 1)) return false;
  // NumPy would start threads for algebra that is never done here. The program may want some.
  const bool ours = !std::getenv(kAlgebraThreads);
  if (ours) setenv(kAlgebraThreads, "1", 1);
  const int failed = python.PyRun_SimpleStringFlags(kBegin, nullptr);
  if (ours) unsetenv(kAlgebraThreads);
  python.PyEval_SaveThread();
  if (failed) return false;
  recorded = getpid();
  std::atexit(finish);
  return true;
}

bool started() {
  static std::once_flag once;
  static bool result = false;
  std::call_once(once, [] { result = start(); });
  return result;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

// Called by the driver when it is initialised. It goes on whatever this returns.
EXPORTED int InitializeInjection() {
  started();
  return 1;
}

// Called by each copy of NVTX in the program, once; the recorder takes its ranges.
EXPORTED int InitializeInjectionNvtx2(void *get_table) {
  if (!started()) return 0;
  void *recorder = dlopen("libtileprof_recorder.so", RTLD_NOW | RTLD_NOLOAD);
  if (!recorder) return 0;
  auto *attach = reinterpret_cast<int (*)(void *)>(dlsym(recorder, "InitializeInjectionNvtx2"));
  return attach ? attach(get_table) : 0;
}
