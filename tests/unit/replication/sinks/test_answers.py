"""When a peer cluster counts as silent."""

from walferry.replication.sinks.answers import FAILING_SECONDS, SILENCE_SECONDS, Answers, Outage


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_failure_is_an_outage_if_the_next_tries_fail_too():
    clock = Clock()
    answers = Answers(clock, clock)
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


def test_silence_becomes_an_outage_and_counts_from_the_last_answer_of_any_sender():
    clock = Clock()
    answers = Answers(clock, clock)
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
    answers = Answers(clock, clock)
    answers.trying(500)
    clock.now += 499
    assert answers.outage is None
    clock.now += 1
    assert answers.outage == Outage(1000.0, 0, None)


def test_a_try_that_this_side_ended_says_nothing_about_the_peer_cluster():
    clock = Clock()
    answers = Answers(clock, clock)
    answers.trying()
    answers.given_up()
    clock.now += 1000
    assert answers.outage is None


def test_silence_lasts_from_the_first_try_or_the_last_sign_of_life():
    clock = Clock()
    answers = Answers(clock, clock)
    assert answers.silent_seconds == 0
    clock.now += 50
    answers.trying()
    clock.now += 20
    assert answers.silent_seconds == 20
    answers.heard()
    clock.now += 3
    assert (answers.silent_seconds, answers.since) == (3, 1050.0)
    answers.failed("refused")
    clock.now += 4
    assert answers.silent_seconds == 7
    answers.trying()
    answers.answered()
    clock.now += 5
    assert answers.silent_seconds == 0


def test_a_correction_of_the_machine_s_time_is_not_a_silence():
    clock, wall = Clock(), Clock()
    answers = Answers(clock, wall)
    answers.trying()
    answers.failed("connection refused")
    wall.now += 3600
    clock.now += 5
    assert answers.silent_seconds == 5
    assert answers.since == wall.now - 5
