// The programs that run the recorder of GPUs without Python, under a sanitizer: one of them by its name.
#include "counter_races.cpp"
#include "pm_races.cpp"
#include "races.cpp"

int main(int, char **arguments) {
  const std::string name = arguments[1];
  if (name == "counter_races") return counter_races(arguments + 2);
  if (name == "pm_races") return pm_races(arguments + 2);
  return launch_races(arguments + 2);
}
