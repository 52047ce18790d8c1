"""The cause out of real logs, not the noise."""

from vivace.engines.last_words import last_words, lost_to_memory

CUT_OFF = """\
0.00.005.030 I srv    load_model: loading model '/m.gguf'
0.00.032.141 E llama_model_load: error loading model: tensor 'blk.16.ffn_down.weight' data is not within the file bounds, model is corrupted or incomplete
0.00.032.154 E llama_model_load_from_file_impl: failed to load model
0.00.032.220 E common_fit_params: encountered an error while trying to fit params to free device memory: failed to load model
0.00.050.076 E llama_model_load: error loading model: tensor 'blk.16.ffn_down.weight' data is not within the file bounds, model is corrupted or incomplete
0.00.050.117 E srv    load_model: failed to load model, '/m.gguf'
0.00.050.120 I srv    operator(): operator(): cleaning up before exit...
0.00.050.522 E srv          init: exiting due to model loading error
error: RuntimeError: Failed to init server, please check the input params.
"""
TOO_LARGE = """\
0.00.197.283 W llama_context: n_ctx_seq (200000000) > n_ctx_train (8192) -- possible training context overflow
0.19.558.108 E ggml_aligned_malloc: insufficient memory (attempted to allocate 4394531.25 MB)
0.19.558.133 E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 4608000000000
"""


def test_the_cause_is_told_once_and_echoes_are_left_out() -> None:
    assert last_words(CUT_OFF) == (
        "llama_model_load: error loading model: tensor 'blk.16.ffn_down.weight' data is not "
        "within the file bounds, model is corrupted or incomplete"
    )


def test_echoes_are_told_when_there_is_nothing_else() -> None:
    log = "0.1 E srv load_model: failed to load model, '/m.gguf'\n0.2 I srv init: bye\n"
    assert last_words(log) == "srv load_model: failed to load model, '/m.gguf'"


def test_a_log_without_errors_gives_its_end() -> None:
    assert last_words("one\ntwo\nthree\n\nfour\n") == "two\nthree\nfour"


def test_many_errors_keep_the_first() -> None:
    log = "\n".join(f"0.1 E cause {i}" for i in range(50))
    assert last_words(log).splitlines() == [f"cause {i}" for i in range(8)]


def test_lines_of_the_runtime_itself_count() -> None:
    log = "0.1 I fine\nterminate called after throwing an instance of 'std::bad_alloc'\n"
    assert lost_to_memory(last_words(log))


def test_memory_that_could_not_be_had_is_recognised() -> None:
    assert lost_to_memory(last_words(TOO_LARGE))
    assert not lost_to_memory(last_words(CUT_OFF))


def test_an_empty_log_has_no_words() -> None:
    assert last_words("") == ""
