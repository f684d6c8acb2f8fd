"""What a run takes from the cache of replies (`cached`)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reuse:
    """again: take nothing that an earlier run left in the cache, and replace it. first_costs: give cached replies with what they
    cost when they were drawn, as a comparison needs, rather than at no cost."""

    again: bool = False
    first_costs: bool = False
