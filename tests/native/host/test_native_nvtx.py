"""NVTX ranges as entries of a thread, by a copy of NVTX that the test plays itself."""

from __future__ import annotations

import textwrap

import pytest

from tests.native.nvtx_programs import COPY, run

pytest.importorskip("tileprof.native._recorder")


def check(program: str, expected: str) -> None:
    """Run a program against a played copy of NVTX; what it prints is compared."""
    assert run(program, COPY) == textwrap.dedent(expected).lstrip("\n")


def test_pushes_and_pops_return_their_depth() -> None:
    """From 0 in each domain and thread, whether somebody records or not; -1 for one too many."""
    check(
        """
        recorder.set_epoch(1)
        io = domain(b"io")
        print(push(b"a"), push(b"b"), domain_push(io, text("c")), pop(), domain_pop(io), pop())
        print(pop(), domain_pop(io))
        recorder.set_epoch(0)
        print(push(b"a"), push(b"b"), pop(), pop(), pop())
        push(b"main")
        other = threading.Thread(target=lambda: print(push(b"other"), pop()))
        other.start(); other.join()
        """,
        """
        0 1 0 1 0 0
        -1 -1
        0 1 1 0 -1
        0 0
        """,
    )


def test_ranges_enclose_what_the_thread_does() -> None:
    """With their names and domains, in each way that NVTX has to say them."""
    check(
        """
        recorder.set_epoch(1)
        io, gross = domain(b"io"), domain_wide("größe")
        push(b"a"); push_wide("ß→𝛑"); push_ex(text("ex")); push_ex(wide("w"))
        domain_push(io, registered(register(io, b"read")))
        domain_push(gross, registered(register_wide(gross, "λ")))
        push_ex(None)
        print(path())
        print(pop()); domain_pop(gross); print(path())
        domain_pop(io); print(path())
        print(io == domain(b"io"), io == gross, copy.attached, recorder.nvtx_attached())
        """,
        """
        a ß→𝛑 ex w io:read größe:λ\x20
        4
        a ß→𝛑 ex w io:read
        a ß→𝛑 ex w
        True False 1 1
        """,
    )


def test_started_ranges_need_not_nest() -> None:
    """What a range ends in goes on without it, and keeps its own end."""
    check(
        """
        recorder.set_epoch(1)
        a = start(b"a"); push(b"p"); b = start_wide("b"); print(path())
        end(a); print(path())
        pop(); print(path())
        end(a); end(12345); end(0); print(path())
        end(b); print(path() or "nothing")
        """,
        """
        a p b
        p b
        b
        b
        nothing
        """,
    )


def test_domains_need_not_nest() -> None:
    """A pop ends the innermost range of its own domain."""
    check(
        """
        recorder.set_epoch(1)
        x, y = domain(b"x"), domain(b"y")
        domain_push(x, text("1")); domain_push(y, text("2")); domain_push(x, text("3"))
        domain_pop(y); print(path())
        domain_pop(x); print(path())
        domain_pop(y); domain_pop(x); print(path() or "nothing")
        s = domain_start(x, text("s")); print(path())
        domain_end(x, s); print(path() or "nothing")
        """,
        """
        x:1 x:3
        x:1
        nothing
        x:s
        nothing
        """,
    )


def test_operations_go_on_in_ranges_that_end() -> None:
    """And leave as what they were; a range that outlasts an operation leaves its path."""
    check(
        """
        recorder.set_epoch(1)
        a = start(b"a"); op = recorder.enter_op("op", -1, 0); print(path())
        end(a); print(path())
        b = start(b"b"); inner = recorder.enter_op("inner", -1, 0); print(path())
        recorder.leave(op); print(path())
        end(b); print(path() or "nothing")
        """,
        """
        a op
        op
        op b inner
        b
        nothing
        """,
    )


def test_time_is_counted_once_wherever_it_goes() -> None:
    """Time before the end of a range is inside it, time after is not; each entry counts once."""
    check(
        """
        recorder.set_epoch(1)
        a = start(b"a"); push(b"p"); spend()
        end(a); spend()
        pop()
        for path, counted in sorted(times().items()):
            if path: print(path, counted)
        whole = sum(own for _, _, own, *_ in recorder.host_times())
        print(whole == sum(around for _, _, _, around, *_ in recorder.host_times()))
        print(recorder.claimed())
        """,
        """
        a (1, True)
        a p (1, True)
        p (0, True)
        True
        {}
        """,
    )


def test_a_range_that_another_thread_ends() -> None:
    """It is closed where it was opened; the thread that ends it is left alone."""
    check(
        """
        recorder.set_epoch(1)
        a = start(b"a"); push(b"p")
        def other():
            push(b"own"); end(a); print(path())
        thread = threading.Thread(target=other); thread.start(); thread.join()
        print(path())
        pop(); print(path() or "nothing")
        """,
        """
        own
        p
        nothing
        """,
    )


def test_only_while_somebody_records() -> None:
    """A recording that begins or ends in the middle of ranges leaves no half of one."""
    check(
        """
        push(b"before"); early = start(b"early")
        recorder.set_epoch(1)
        push(b"in"); print(path())
        recorder.set_epoch(0)
        push(b"after"); print(path())
        recorder.set_epoch(2)
        print(pop(), path()); print(pop(), path() or "nothing"); end(early)
        print(pop(), path() or "nothing")
        """,
        """
        in
        in
        2 in
        1 nothing
        0 nothing
        """,
    )


def test_ranges_that_never_end_do_not_add_up() -> None:
    """Beyond a depth they are left out, and a proper range is found again after them."""
    check(
        """
        recorder.set_epoch(1)
        started = [start(b"leak") for _ in range(10000)]
        print(len(set(started)), len(path().split()))
        op = recorder.enter_op("op", -1, 0); print(path().split()[-1]); recorder.leave(op)
        for each in started: end(each)
        push(b"good"); print(path())
        """,
        """
        10000 256
        op
        good
        """,
    )


def test_slots_of_ranges_are_used_again() -> None:
    """Many short ranges beside a long one, ended by another thread at last."""
    check(
        """
        recorder.set_epoch(1)
        long = start(b"long")
        for _ in range(20000):
            end(start(b"short"))
        print(path())
        thread = threading.Thread(target=end, args=(long,)); thread.start(); thread.join()
        print(path() or "nothing")
        """,
        """
        long
        nothing
        """,
    )


def test_threads_that_end_each_others_ranges() -> None:
    """However they interleave, nothing stays open and nothing is lost."""
    check(
        """
        import queue
        recorder.set_epoch(1)
        handed, left = [queue.SimpleQueue() for _ in range(4)], []
        def work(number):
            for turn in range(500):
                handed[(number + 1) % 4].put(start(b"r%d" % number))
                push(b"p")
                end(handed[number].get())
                pop()
            barrier.wait()
            left.append(path())
        barrier = threading.Barrier(4)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for each in threads: each.start()
        for each in threads: each.join()
        print(left)
        known = recorder.contexts(0)
        counted = {}
        for at, count, *_ in recorder.host_times():
            if known[at][1] == 5:
                name = recorder.name(known[at][2])
                counted[name] = counted.get(name, 0) + count
        print(sorted(counted.items()))
        """,
        """
        ['', '', '', '']
        [('p', 2000), ('r0', 500), ('r1', 500), ('r2', 500), ('r3', 500)]
        """,
    )


def test_in_a_forked_child() -> None:
    """Ranges that the parent opened are closed there without harm; new ones are recorded."""
    check(
        """
        recorder.set_epoch(1)
        push(b"parent"); a = start(b"a")
        child = os.fork()
        if not child:
            recorder.after_fork()
            print(path() or "nothing", push(b"child"), path(), pop(), pop(), flush=True)
            end(a); print(path() or "nothing", flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(path())
        """,
        """
        nothing 1 child 1 0
        nothing
        parent a
        """,
    )


def test_an_old_copy_without_domains() -> None:
    """NVTX 1 has no table of them; its core is served."""
    check("print(Copy(modules=(1,)).attached, Copy(modules=(5,)).attached)", "1 0\n")
