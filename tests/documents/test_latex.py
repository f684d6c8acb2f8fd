"""LaTeX: what is printed is read, in the lines of the file; comments, the preamble and what follows the end are not."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from fbrag_cli.documents.lines import line_of
from tests.documents.making import written

_PAPER = r"""\documentclass{article} % the class
\usepackage[utf8]{inputenc}
\title{Drying of \what}
\newcommand{\what}{lime mortar} % of 2019
\author{Ann % the first
  Lee}
\renewcommand\section{\@startsection{section}{1}{\z@}}
\begin{document}
\maketitle
\section{Method}
% The samples were dried at 80 degrees for 12 hours.
The samples, all of \what,
% and of clay,
were dried at 60 degrees (50\% of the maximum). % not 80
\begin{comment}
We had planned to measure 90 samples.
\end{comment}
\iffalse Once \ifx a b more \fi than 14 broke. \fi None broke.
\iffalse Ten \else Twelve \fi were heavy \\% after a line break
and dry.
\end{document}
An old draft.
"""


def test_what_is_printed_is_read_in_the_lines_of_the_file(tmp_path: Path) -> None:
    document = written(tmp_path, _PAPER, "paper.tex")
    lines = document.text.split("\n")
    assert {number: line.rstrip() for number, line in enumerate(lines, 1) if line.strip()} == {
        3: r"\title{Drying of lime mortar}",
        5: r"\author{Ann",
        6: r"  Lee}",
        9: r"\maketitle",
        10: r"\section{Method}",
        12: r"The samples, all of lime mortar,",
        13: "%",  # a blank line would end the sentence
        14: r"were dried at 60 degrees (50\% of the maximum).",
        18: r" None broke.",
        19: r" Twelve  were heavy \\",
        20: r"and dry.",
    }
    assert len(lines) == len(_PAPER.split("\n"))
    assert line_of(document, document.text.index("60 degrees")) == 14


_LITERAL = r"""\verb|a % b| and \verb*!c % d! and \lstinline[language=C]{e % f}, see \url{http://x.org/a%20b}
and \href{http://x.org/c%20d}{the page}.
\begin{verbatim}
% kept \end{document}
\end{verbatim}
\begin{lstlisting}[language=Python]
x = 5 % 3
\end{lstlisting}
\begin{minted}{python}
y = 7 % 3
\end{minted}
\lstnewenvironment{code}{}{}
\begin{code}
z = 9 % 3
\end{code}
"""


def test_what_is_literal_has_no_comments(tmp_path: Path) -> None:
    assert written(tmp_path, _LITERAL, "part.tex").text == _LITERAL
    inside = "\\begin{document}\n" + _LITERAL + "\\end{document}\n"
    assert written(tmp_path, inside, "whole.tex").text == f"\n{_LITERAL}\n"


def test_a_part_without_a_document_keeps_all_but_comments(tmp_path: Path) -> None:
    text = "% !TEX root = main.tex\n\\usepackage{x}\n\\newcommand{\\n}{14}\nWe used \\n{} samples. % not 15\n"
    expected = "\n\\usepackage{x}\n\\newcommand{\\n}{14}\nWe used 14 samples. \n"
    assert written(tmp_path, text, "part.tex").text == expected


@pytest.mark.parametrize(
    ("definitions", "used", "text"),
    [
        (r"\newcommand{\rate}{0.35}", r"\rate\,mm, \rate{} mm and \rated", r"0.35\,mm, 0.35 mm and \rated"),
        (r"\def\rate{0.35}\renewcommand*\rate{0.4}", r"\rate", "0.4"),
        (r"\providecommand{\rate} {0.{3}5}", r"\rate", "0.{3}5"),
        ("\\newcommand{\\fb}{FB\n  RAG\\xspace}", r"\fb is", "FB RAG is"),
        (r"\newcommand{\full}{\fb\ of \city}\def\fb{FB}\def\city{Bern}", r"\full", r"FB\ of Bern"),
        (r"\def\city{Bern}", r"\city, \renewcommand{\city}{Basel}\city", r"Bern, \renewcommand{\city}{Basel}Basel"),
        (r"\newcommand{\two}[2]{#1 and #2}\def\one#1{#1}", r"\two{a}{b} \one{c}", r"\two{a}{b} \one{c}"),
        (r"\def\a{\b}\def\b{\a}", r"\a", r"\a"),
        (r"\newcommand{\hide}{\iffalse}\newcommand{\unhide}{\fi}", "shown", "shown"),
        (r"\def\open{", r"\open", r"\open"),
    ],
)
def test_own_commands_without_arguments_are_written_out(tmp_path: Path, definitions: str, used: str, text: str) -> None:
    paper = f"{definitions}\n\\begin{{document}}\n{used}\n\\end{{document}}\n"
    assert written(tmp_path, paper, "paper.tex").text.strip() == text


_TWENTY = r"\a" * 20


@pytest.mark.parametrize(
    "text",
    [
        "\\begin{verbatim}" * 50_000,
        "\\begin{comment}" * 50_000,
        "\\iffalse " * 50_000 + "\\fi " * 50_000,
        "".join(f"\\verb{chr(0x4E00 + each % 20_000)}" for each in range(50_000)),
        "\\url{" * 50_000,
        "\\def\\a{" * 50_000,
        "%\n" * 50_000 + "a",
        "\\title[" * 50_000 + "\\begin{document}x",
        "".join(f"\\lstnewenvironment{{a{each}}}\\begin{{a{each}}}" for each in range(50_000)),
        "".join(rf"\def\{'a' * n}{{{_TWENTY.replace('a', 'a' * (n + 1))}}}" for n in range(1, 30)) + "\\a x" * 50_000,
        "\\def\\a{\\a\\a}" + "\\a x" * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_files(tmp_path: Path, text: str) -> None:
    begin = process_time()
    assert len(written(tmp_path, text + "\nend", "a.tex").text) < 10 * len(text)
    assert process_time() - begin < 10
