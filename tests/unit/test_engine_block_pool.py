from forebay.engine.block_pool import BlockCounts, BlockPool


def test_a_released_block_is_found_again_by_its_hash_until_it_is_overwritten():
    pool = BlockPool(num_blocks=3, block_size=4)
    first, second = pool.take([], 2)
    pool.publish(first, b"one")
    pool.publish(second, b"two")
    pool.release([first, second])
    assert pool.counts == BlockCounts(free=1, cached=2, used=0)
    assert pool.lookup([b"one", b"two", b"three"]) == [first, second]

    pool.take([], 2)  # the free one, then the end of the released chain
    assert pool.lookup([b"one", b"two"]) == [first]


def test_a_hit_counts_against_what_can_be_taken():
    pool = BlockPool(num_blocks=2, block_size=4)
    (block,) = pool.take([], 1)
    pool.publish(block, b"one")
    pool.release([block])
    assert pool.can_take([block], 1)
    assert not pool.can_take([block], 2)
    assert pool.can_take([], 2)


def test_a_shared_block_stays_used_until_its_last_holder_lets_go():
    pool = BlockPool(num_blocks=2, block_size=4)
    (block,) = pool.take([], 1)
    pool.publish(block, b"one")
    assert pool.take([block], 0) == [block]
    assert pool.held_alone([block]) == 0
    pool.release([block])
    assert pool.counts.used == 1
    pool.release([block])
    assert pool.counts == BlockCounts(free=1, cached=1, used=0)


def test_the_first_block_of_a_hash_is_the_one_that_is_found():
    pool = BlockPool(num_blocks=2, block_size=4)
    first, second = pool.take([], 2)
    pool.publish(first, b"same")
    pool.publish(second, b"same")
    assert pool.lookup([b"same"]) == [first]
    pool.release([second])
    assert pool.counts == BlockCounts(free=1, cached=0, used=1)
