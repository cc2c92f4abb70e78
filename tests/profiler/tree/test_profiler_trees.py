"""Programs beside the whole tree that they give."""

from __future__ import annotations

from tests.profiler_programs import expect, run, tree


def test_scopes_and_the_frames_between_them() -> None:
    """A scope hangs below the frames that led to it, and below the scope around it."""
    profile = run("""
        def inner():
            with scope("b"):
                spend(3)
        def outer():
            with scope("a"):
                spend(10)
                inner()
                inner()
        outer()
        with scope("c"):
            inner()
    """)
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:9
          frame outer:5
            scope a count=1 cpu_time=10
              frame inner:2
                scope b count=2 cpu_time=6
        frame <module>:10
          scope c count=1
            frame inner:2
              scope b count=1 cpu_time=3
    """)


def test_what_libraries_do_for_us_does_not_show() -> None:
    """A library that the program calls shows; one that we call does not, but what it calls back."""
    profile = run("""
        import contextlib, os
        def at(file, function):
            function.__code__ = function.__code__.replace(co_filename=file)
            return function
        def library(call, *more):
            call(*more)
        at(contextlib.__file__, library)
        def ours(call, *more):
            call(*more)
        at(os.path.dirname(profiler.__path__[0]) + "/runtime/some.py", ours)
        def work():
            with scope("s"):
                spend(5)
        library(work)
        ours(library, work)
    """)
    assert tree(profile, "cpu_time") == expect("""
        frame <module>:14
          frame library:6
            frame work:12
              scope s cpu_time=5
        frame <module>:15
          frame work:12
            scope s cpu_time=5
    """)


def test_scopes_only() -> None:
    """With context scopes no frame shows, and scopes know the place of their first visit."""
    profile = run(
        """
        def inner():
            with scope("b"):
                spend(3)
        with scope("a", flops=7, rows=2):
            inner()
        inner()
        """,
        context="scopes",
    )
    assert tree(profile, "count", "cpu_time", "flops", "rows") == expect("""
        scope a count=1 flops=7 rows=2
          scope b count=1 cpu_time=3
        scope b count=1 cpu_time=3
    """)
    place = profile.node(0).location
    assert place is not None
    assert (place.file, place.line, place.function) == ("prog.py", 4, "<module>")


def test_total_is_the_wall_time() -> None:
    """The total of a scope is the time between its begin and its end, to the nanosecond."""
    profile = run(
        """
        with scope("a"):
            spend(1)
            with scope("b"):
                spend(10)
                with scope("c"):
                    spend(100)
            spend(1000)
        spend(5000)
        """,
        context="scopes",
    )
    totals = [profile.node(i).total("cpu_time") for i in range(3)]
    assert totals == [1111, 110, 100]


def test_recursion() -> None:
    """Each level of a recursion is a level of the tree; the lines tell the calls apart."""
    profile = run("""
        def down(n):
            with scope("level"):
                spend(n)
                if n > 1:
                    down(n - 1)
            if n == 3:
                down(1)
        down(3)
    """)
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:8
          frame down:2
            scope level count=1 cpu_time=3
              frame down:2
                scope level count=1 cpu_time=2
                  frame down:2
                    scope level count=1 cpu_time=1
          frame down:7
            frame down:2
              scope level count=1 cpu_time=1
    """)


def test_a_context_manager_made_of_a_generator() -> None:
    """The body of a `with` block is inside the scope that the generator opened."""
    profile = run("""
        from contextlib import contextmanager
        @contextmanager
        def timed(name):
            with scope(name):
                spend(1)
                yield
                spend(2)
        def work():
            with scope("inside"):
                spend(10)
        def main():
            with timed("a"):
                work()
                with scope("b"):
                    spend(100)
            work()
        main()
        main()
    """)
    assert tree(profile, "count", "cpu_time").replace(".__enter__", "") == expect(f"""
        frame <module>:17
          frame main:12
            frame _GeneratorContextManager:{_line_in_contextlib()}
              frame timed:4
                scope a count=1 cpu_time=3
                  frame work:9
                    scope inside count=1 cpu_time=10
                  scope b count=1 cpu_time=100
          frame main:16
            frame work:9
              scope inside count=1 cpu_time=10
        frame <module>:18
          frame main:12
            frame _GeneratorContextManager:{_line_in_contextlib()}
              frame timed:4
                scope a count=1 cpu_time=3
                  frame work:9
                    scope inside count=1 cpu_time=10
                  scope b count=1 cpu_time=100
          frame main:16
            frame work:9
              scope inside count=1 cpu_time=10
    """)


def _line_in_contextlib() -> int:
    import contextlib
    import inspect

    lines, start = inspect.getsourcelines(contextlib._GeneratorContextManager.__enter__)
    return start + next(i for i, line in enumerate(lines) if "next(self.gen)" in line)


def test_a_scope_open_in_a_suspended_generator() -> None:
    """It is around what the generator does, not around what its caller does between two steps."""
    profile = run("""
        def numbers():
            for i in range(2):
                with scope("produce"):
                    spend(1)
                    yield i
                    spend(2)
        for i in numbers():
            with scope("consume"):
                spend(10)
        mixed = numbers()
        next(mixed)
        with scope("around"):
            spend(100)
            next(mixed)
            spend(200)
        spend(5)
        mixed.close()
        with scope("after"):
            spend(1000)
    """)
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:7
          frame numbers:3
            scope produce count=2 cpu_time=6
        frame <module>:8
          scope consume count=2 cpu_time=20
        frame <module>:11
          frame numbers:3
            scope produce count=1 cpu_time=1
        frame <module>:12
          scope around count=1 cpu_time=102
            frame numbers:3
              scope produce count=1 cpu_time=206
        frame <module>:18
          scope after count=1 cpu_time=1000
    """)


def test_tasks_do_not_see_each_others_scopes() -> None:
    """Tasks interleave: each keeps its own open scopes, and those of where it was made."""
    profile = run(
        """
        import asyncio
        async def task(name, first, then):
            with scope(name):
                spend(first)
                await asyncio.sleep(0)
                with scope("then"):
                    spend(then)
        async def main():
            with scope("gather"):
                await asyncio.gather(task("a", 1, 10), task("b", 2, 20))
            await asyncio.create_task(task("c", 3, 30))
        asyncio.run(main())
        """,
        context="scopes",
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        scope gather count=1
          scope a count=1 cpu_time=1
            scope then count=1 cpu_time=10
          scope b count=1 cpu_time=2
            scope then count=1 cpu_time=20
        scope c count=1 cpu_time=3
          scope then count=1 cpu_time=30
    """)


def test_tasks_with_frames() -> None:
    """A task's path is that of the scope it was made in, then its own frames, no event loop's."""
    profile = run("""
        import asyncio
        async def task(name):
            await asyncio.sleep(0)
            with scope(name):
                spend(1)
        async def main():
            with scope("gather"):
                await asyncio.gather(task("a"), task("b"))
        asyncio.run(main())
    """)
    lines = tree(profile, "count").split("\n")
    top = next(i for i, line in enumerate(lines) if "scope gather" in line)
    indent = len(lines[top]) - len(lines[top].lstrip())
    assert [line[indent:] for line in lines[top:]] == [
        "scope gather count=1",
        "  frame task:4",
        "    scope a count=1",
        "    scope b count=1",
    ]


def test_a_thread_that_runs_in_a_copied_context_is_in_its_scope() -> None:
    """As of `asyncio.to_thread`; a pool's other work begins outside of all scopes.

    Time passes for the threads that wait, too.
    """
    profile = run("""
        import asyncio
        from concurrent.futures import ThreadPoolExecutor
        def query(ns):
            with scope("query"):
                spend(ns)
            with scope("again"):
                spend(1)
        async def request(name, ns):
            with scope(name):
                await asyncio.to_thread(query, ns)
        async def main():
            await request("a", 10)
            await request("b", 200)
        asyncio.run(main())
        with ThreadPoolExecutor(1) as pool, scope("batch"):
            pool.submit(query, 3000).result()
        """, context="scopes",
    )  # fmt: skip
    assert tree(profile, "count", "cpu_time") == expect("""
        scope a count=1 cpu_time=11
          scope query count=1 cpu_time=10
          scope again count=1 cpu_time=1
        scope b count=1 cpu_time=201
          scope query count=1 cpu_time=200
          scope again count=1 cpu_time=1
        scope batch count=1 cpu_time=3001
        scope query count=1 cpu_time=3000
        scope again count=1 cpu_time=1
    """)


def test_scopes_of_a_generator_are_not_around_another_thread() -> None:
    """A thread that begins in a copy of a context in which one is suspended is outside of it."""
    profile = run("""
        import contextvars, threading
        def steps():
            with scope("step"):
                yield
        def work():
            with scope("work"):
                spend(5)
        generator = steps()
        next(generator)
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work,))
        thread.start()
        thread.join()
        generator.close()
        """, context="scopes",
    )  # fmt: skip
    assert "scope work count=1 cpu_time=5" in tree(profile, "count", "cpu_time").split("\n")


def test_threads() -> None:
    """A thread starts at its target, outside of every scope; all threads share one forest."""
    profile = run("""
        import threading
        def work(ns):
            with scope("work"):
                spend(ns)
        class Mine(threading.Thread):
            def run(self):
                work(1000)
        with scope("main"):
            for ns in (1, 10):
                thread = threading.Thread(target=work, args=(ns,))
                thread.start()
                thread.join()
            mine = Mine()
            mine.start()
            mine.join()
            work(100)
    """)
    assert tree(profile, "count") == expect("""
        frame <module>:8
          scope main count=1
            frame work:3
              scope work count=1
        frame work:3
          scope work count=2
        frame Mine.run:7
          frame work:3
            scope work count=1
    """)


def test_decorated_functions() -> None:
    """Functions, methods, generators and coroutines: the scope is around their whole run."""
    profile = run("""
        import asyncio
        @scope("f", flops=2)
        def f(n):
            "doc"
            spend(n)
            if n > 1:
                f(n - 1)
        class C:
            @scope("method")
            def method(self):
                f(1)
        @scope("generator")
        def generator():
            spend(10)
            got = yield 1
            spend(got)
            return 5
        @scope("coroutine")
        async def coroutine():
            spend(100)
            await asyncio.sleep(0)
            spend(100)
        def main():
            assert f.__name__ == "f" and f.__doc__ == "doc"
            f(2)
            C().method()
            g = generator()
            next(g)
            try:
                g.send(20)
            except StopIteration as stop:
                assert stop.value == 5
            c = coroutine()
            try:
                while True:
                    c.send(None)
            except StopIteration:
                pass
        main()
    """)
    assert tree(profile, "count", "cpu_time", "flops") == expect("""
        frame <module>:39
          frame main:25
            scope f count=1 cpu_time=2
              frame f:7
                scope f count=1 cpu_time=1 flops=2
          frame main:26
            scope method count=1
              frame C.method:11
                scope f count=1 cpu_time=1 flops=2
          frame main:28
            scope generator count=1 cpu_time=30
          frame main:36
            scope coroutine count=1 cpu_time=200
    """)
    place = profile.node(profile.find("f", "scope")[0]).location
    assert place is not None
    assert (place.line, place.function) == (2, "f")


def test_an_exception_closes_scopes() -> None:
    """What an exception leaves is over, and the exception goes on."""
    profile = run("""
        def fail():
            with scope("inner"):
                spend(2)
                raise KeyError("mine")
        try:
            with scope("outer"):
                fail()
        except KeyError as error:
            assert error.args == ("mine",)
        with scope("next"):
            spend(3)
    """)
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:6
          scope outer count=1
            frame fail:2
              scope inner count=1 cpu_time=2
        frame <module>:10
          scope next count=1 cpu_time=3
    """)


def test_one_scope_object_many_visits() -> None:
    """A scope object may be kept, nested in itself, and entered by an exit stack."""
    profile = run(
        """
        from contextlib import ExitStack
        kept = scope("kept")
        with kept:
            spend(1)
            with kept:
                spend(2)
            spend(4)
        with ExitStack() as stack:
            stack.enter_context(kept)
            stack.enter_context(scope("second"))
            spend(8)
        with scope("end"):
            spend(16)
        """,
        context="scopes",
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        scope kept count=2 cpu_time=5
          scope kept count=1 cpu_time=2
          scope second count=1 cpu_time=8
        scope end count=1 cpu_time=16
    """)


def test_a_scope_called_from_two_places() -> None:
    """Going back and forth between callers never mixes up their paths."""
    profile = run("""
        def work():
            with scope("w"):
                spend(1)
        def left():
            work()
        def right():
            work()
        for _ in range(3):
            left(); right()
            right(); left(); left()
    """)
    assert tree(profile, "count") == expect("""
        frame <module>:9
          frame left:5
            frame work:2
              scope w count=3
          frame right:7
            frame work:2
              scope w count=3
        frame <module>:10
          frame right:7
            frame work:2
              scope w count=3
          frame left:5
            frame work:2
              scope w count=6
    """)
