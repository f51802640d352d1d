"""When a slave counts as one that acknowledges nothing."""

from walferry.sinks.answers import FAILING_SECONDS, SILENCE_SECONDS, Answers, Outage


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_failure_is_an_outage_when_the_next_tries_do_not_mend_it():
    clock = Clock()
    answers = Answers(clock)
    answers.trying()
    answers.failed("refused")
    assert answers.outage is None
    clock.now += FAILING_SECONDS
    assert answers.outage == Outage(1000.0, 1, "refused")
    answers.trying()
    answers.failed("refused again")
    assert answers.outage == Outage(1000.0, 2, "refused again")
    answers.trying()
    answers.answered()
    assert answers.outage is None


def test_silence_is_one_after_a_while_and_since_the_last_answer_of_any_lane():
    clock = Clock()
    answers = Answers(clock)
    answers.trying()
    answers.trying()
    clock.now += 3
    answers.answered()
    clock.now += SILENCE_SECONDS - 1
    assert answers.outage == Outage(1003.0, 0, None)
    answers.answered()
    clock.now += 1000
    assert answers.outage is None


def test_a_bulk_load_may_take_its_time():
    clock = Clock()
    answers = Answers(clock)
    answers.trying(500)
    clock.now += 499
    assert answers.outage is None
    clock.now += 1
    assert answers.outage == Outage(1000.0, 0, None)


def test_a_try_that_was_ended_from_here_says_nothing_of_the_slave():
    clock = Clock()
    answers = Answers(clock)
    answers.trying()
    answers.given_up()
    clock.now += 1000
    assert answers.outage is None
