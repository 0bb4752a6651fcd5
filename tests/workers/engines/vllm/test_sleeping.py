"""What vLLM is told of sleep, by its documented calls; needs no vLLM."""

from unittest.mock import Mock, call

from workers.engines.vllm.sleeping import NoSleep, VllmSleep


def test_weights_that_stay_in_the_machine_are_only_brought_back() -> None:
    llm = Mock()
    sleep = VllmSleep(llm, level=1)
    sleep.sleep()
    sleep.wake()
    assert llm.mock_calls == [call.reset_prefix_cache(), call.sleep(level=1), call.wake_up()]


def test_weights_that_were_thrown_away_are_read_before_keys_and_values_get_their_room() -> None:
    llm = Mock()
    sleep = VllmSleep(llm, level=2)
    sleep.sleep()
    sleep.wake()
    assert llm.mock_calls == [
        call.reset_prefix_cache(),
        call.sleep(level=2),
        call.wake_up(tags=["weights"]),
        call.collective_rpc("reload_weights"),
        call.wake_up(tags=["kv_cache"]),
    ]


def test_without_a_gpu_only_what_was_cached_is_forgotten() -> None:
    llm = Mock()
    sleep = NoSleep(llm)
    sleep.sleep()
    sleep.wake()
    assert llm.mock_calls == [call.reset_prefix_cache()]
