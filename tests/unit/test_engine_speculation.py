"""Guesses, and when they are worth a larger step."""

from forebay.engine.speculation import MAX_DRAFT, Drafting, PromptLookup, StepCosts, draft_lengths, may_pay

FLAT = StepCosts((1, 64), (1.0, 1.0))
LINEAR = StepCosts((1, 64), (1.0, 64.0))


def lookup(token_ids: list[int]) -> PromptLookup:
    made = PromptLookup()
    made.push(token_ids)
    return made


def test_the_guess_is_what_followed_the_same_tokens_last_time():
    assert lookup([1, 2, 3, 4, 9, 1, 2, 3, 5, 8, 1, 2, 3]).guess(3) == [5, 8, 1]


def test_a_longer_match_wins_over_a_later_one():
    assert lookup([1, 2, 3, 4, 9, 2, 3, 7, 1, 2, 3]).guess(1) == [4]


def test_there_is_no_guess_after_tokens_that_are_new():
    assert lookup([1, 2, 3, 4, 5]).guess(4) == []
    assert lookup([]).guess(4) == []


def test_what_repeats_is_guessed_to_go_on():
    assert lookup([7, 1, 2, 1, 2, 1, 2]).guess(5) == [1, 2, 1, 2, 1]


def test_tokens_can_come_one_by_one():
    made = lookup([])
    for token in [1, 2, 3, 4, 1, 2]:
        made.push([token])
    assert made.guess(2) == [3, 4]


def test_step_costs_are_interpolated_and_grow_in_proportion_beyond_the_largest():
    costs = StepCosts((1, 4, 8), (10.0, 16.0, 40.0))
    assert [costs.of(n) for n in (1, 2, 4, 6, 8, 16)] == [10, 12, 16, 28, 40, 80]


def test_free_guesses_are_all_tried_and_those_that_cost_a_token_each_none():
    assert draft_lengths([0.5, 0.1], [3, 2], 2, FLAT) == [3, 2]
    assert draft_lengths([0.99, 0.99], [3, 2], 2, LINEAR) == [0, 0]


def test_guesses_are_made_only_where_a_right_one_would_pay():
    step = StepCosts((1, 2, 4, 64), (1.0, 1.2, 4.0, 64.0))
    assert [may_pay(n, step) for n in (1, 2, 3, 8)] == [True, False, False, False]


def test_the_likeliest_guesses_go_first():
    step = StepCosts((1, 4, 5, 64), (1.0, 1.0, 5.0, 64.0))
    assert draft_lengths([0.9, 0.3], [8, 8], 2, step) == [2, 0]
    assert draft_lengths([0.3, 0.9], [8, 8], 2, step) == [0, 2]


def test_nothing_to_guess_is_nothing_to_try():
    assert draft_lengths([], [], 3, FLAT) == []
    assert draft_lengths([0.9], [0], 1, FLAT) == [0]


def test_acceptance_is_learned_from_guesses_that_were_tried_and_from_those_that_were_not():
    drafting = Drafting([1, 2] * 10)
    start = drafting.acceptance
    for _ in range(10):
        drafting.guess(4)
        drafting.learn([1], tried=0)
        drafting.guess(4)
        drafting.learn([2], tried=0)
    often_right = drafting.acceptance
    assert often_right > 0.95 > start
    drafting.guess(4)
    drafting.learn([1, 2, 9], tried=4)
    assert drafting.acceptance < often_right
    for token in range(50, 60):
        drafting.guess(4)
        drafting.learn([token], tried=0)
    assert drafting.acceptance < often_right


def test_without_a_guess_there_is_nothing_to_learn():
    drafting = Drafting([1, 2, 3])
    before = drafting.acceptance
    assert drafting.guess(4) == []
    drafting.learn([4], tried=0)
    assert drafting.acceptance == before


def test_a_change_of_size_is_a_cost_of_guesses_alone():
    free, dear = StepCosts((1, 64), (1.0, 1.0)), StepCosts((1, 64), (1.0, 1.0), change_s=9.0)
    assert draft_lengths([0.9], [4], 1, free) == [4]
    assert draft_lengths([0.9], [4], 1, dear) == [0]
    assert (may_pay(1, free), may_pay(1, dear)) == (True, False)


def test_a_guess_is_no_longer_than_what_may_still_come():
    drafting = Drafting([1, 2] * 20)
    assert len(drafting.guess(3)) == 3
    assert len(drafting.guess(100)) == MAX_DRAFT
    assert drafting.guess(0) == []


def test_what_was_looked_at_is_not_looked_at_twice():
    drafting = Drafting([1, 2, 3, 4, 1, 2])
    assert drafting.guess(3) == drafting.guess(3) == [3, 4, 1]


def test_only_the_end_of_a_long_prompt_is_remembered():
    assert Drafting([1, 2, 3, *range(10, 5000), 1, 2]).guess(1) == []
