"""How sure an answer is: whether the forward samples hold it, and whether the large model finds it in what it read.

Beyond the papers. The samples were drawn before Stage III and from other text, so their agreement says more than the model's own
check, and costs nothing (tests/benchmarks/README.md, "Confidence").
"""

from __future__ import annotations

from dataclasses import replace

from fbrag_cli.trace import Trace

#: Below this support alone, where there are no samples, the answer is "the document does not say".
MIN_SUPPORT = 0.45
#: Below the first confidence the document does not say; below the second the answer is unsure: at the latest where no sample
#: holds it. Set on 450 answers, looked at again on fresh ones (tests/benchmarks/README.md, "Confidence").
DECLINED, SURE = 0.275, 0.51

_ONE_AGREES = 0.01  # without a check an answer is unsure that no sample holds
_SHORT = 4  # terms of a short answer, which a sample has to hold whole; of a longer one half


def agreement(trace: Trace) -> float | None:
    """Return the share of the samples that hold the answer, 0 to 1; None without samples that were drawn from the document.

    A sample holds the answer if it has the terms of the answer that the question lacks, of a long answer half of them. None, too,
    for an answer without a term, such as "yes".
    """
    drawn = [sample for each in trace.rounds if each.read for sample in each.samples]
    own, asked = _terms(trace, trace.answer or ""), _terms(trace, trace.question)
    sought = own - asked or own
    if not drawn or not sought:
        return None
    least = len(sought) if len(sought) <= _SHORT else len(sought) / 2
    return sum(len(sought & _terms(trace, sample.text)) >= least for sample in drawn) / len(drawn)


def judged(trace: Trace, support: float | None) -> Trace:
    """Return the trace with the verdict on its answer: status, agreement, confidence, and whether it is unsure.

    support: see `Trace`. The confidence is the mean of support and agreement, or the one that is known.
    """
    agreed = agreement(trace)
    known = [each for each in (support, agreed) if each is not None]
    sure = sum(known) / len(known) if known else None
    declined = not trace.answer or (support is not None and (sure or 0) < (MIN_SUPPORT if agreed is None else DECLINED))
    return replace(
        trace,
        status="not_found" if declined else "answered",
        support=support,
        agreement=agreed,
        confidence=sure,
        unsure=not declined and agreed is not None and (sure or 0) < (SURE if support is not None else _ONE_AGREES),
    )


def _terms(trace: Trace, text: str) -> frozenset[str]:
    from fbrag_cli.text.words import terms

    languages = tuple(dict.fromkeys(excerpt.document.language for excerpt in trace.context))
    return frozenset(terms(text, languages or ("",)))
