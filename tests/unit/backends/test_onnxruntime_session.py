"""The options that sessions of ONNX Runtime get."""

from guepard.backends.onnxruntime_session import session_options


def test_an_execution_uses_the_threads_it_was_given_and_none_of_them_spins() -> None:
    options = session_options(3, "standard")
    assert options.intra_op_num_threads == 3
    assert options.inter_op_num_threads == 1
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.get_session_config_entry("session.inter_op.allow_spinning") == "0"


def test_what_runs_need_comes_from_the_shared_arena_and_is_not_planned_ahead() -> None:
    options = session_options(1, "standard")
    assert options.get_session_config_entry("session.use_env_allocators") == "1"
    assert not options.enable_mem_pattern


def test_where_memory_is_short_there_is_no_arena() -> None:
    options = session_options(1, "low-memory")
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
