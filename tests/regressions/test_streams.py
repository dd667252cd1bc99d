"""Generators whose reader goes away."""

from __future__ import annotations


def test_a_generator_nobody_reads_any_more_is_not_held_back(runtime, get, tmp_path):
    """Each one kept its CPU for ever, so that the third of two CPUs never began."""

    @runtime.remote(_generator_backpressure_num_objects=1)
    def numbers(path):
        yield from range(5)
        path.touch()

    paths = [tmp_path / str(i) for i in range(4)]
    ends = []
    for path in paths:
        stream = numbers.remote(path)
        assert get(next(stream)) == 0
        ends.append(stream.completed())
        del stream
    get(ends)
    assert all(path.exists() for path in paths)


def test_a_generator_that_nobody_ever_read_runs_to_its_end(runtime, get, tmp_path):
    @runtime.remote(_generator_backpressure_num_objects=1)
    def numbers(path):
        yield from range(5)
        path.touch()

    end = numbers.remote(tmp_path / "end").completed()
    get(end)
    assert (tmp_path / "end").exists()
