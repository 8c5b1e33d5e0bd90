"""Drawing the next token of every row of a step at once.

A draw adds to each allowed token's log-probability a Gumbel number made from (seed, position, token) and takes the
largest, which is a draw from the distribution (the Gumbel-max trick). The numbers are the same whatever else is in the
batch and however often a sequence was preempted, so a seed's output can only part where the two largest sums nearly
tie, as logits of one prompt differ in their last bits with the shape of the step.

The graph has sorted only the K likeliest tokens of a row. What penalties, bias and bans change is few tokens more.
These are the known tokens; all others of the row are unlikelier than each of them and stand together as one more
candidate, the tail. Only if the tail may win, or if a restriction reaches beyond the known, is the whole row looked at.
"""
