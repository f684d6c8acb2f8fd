"""LaTeX: what is printed is read, in the lines of the file; comments, the preamble and what follows the end are not."""

from __future__ import annotations

from pathlib import Path
from time import process_time

import pytest

from fbrag_cli.documents.lines import line_of
from fbrag_cli.documents.load import load
from fbrag_cli.indexing.collect import collect
from fbrag_cli.indexing.entry import ReadSettings
from fbrag_cli.indexing.walk import find_files
from fbrag_cli.storage.cache import Cache
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
        3: r"\title{Drying of \what}",
        5: r"\author{Ann",
        6: r"  Lee}",
        9: r"\maketitle",
        10: r"\section{Method}",
        12: r"The samples, all of \what,",
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
    expected = "\n\\usepackage{x}\n\\newcommand{\\n}{14}\nWe used \\n{} samples. \n"
    assert written(tmp_path, text, "part.tex").text == expected


@pytest.mark.parametrize(
    ("written_as", "text"),
    [
        (r"\L{}ukasiewicz, Lw\'ow, G{\"o}del, M\"unster", "Łukasiewicz, Lwów, Gödel, Münster"),
        (r"{\L}\'{o}d\'z and \v{C}ech, \v Cech, \H{o}, \c{c}a, \k{a}, \r{a}", "Łódź and Čech, Čech, ő, ça, ą, å"),
        (r"na\"{\i}ve, na\"\i ve, Stra\ss e, Stra{\ss}e, \O re, \AA ngstr\"om", "naïve, naïve, Straße, Straße, Øre, Ångström"),
        (r"Garc{\'\i}a, \~nandu, \^{e}tre, \=a, \.z, \`a \u{g}", "García, ñandu, être, ā, ż, à ğ"),
        (r"wait\dots{} and \ldots; 3\textendash 5", "wait… and …; 3–5"),
        (r"{\"Uber alles} \item \cite{a} \large \ldot \'3 \"` x", r"{Über alles} \item \cite{a} \large \ldot \'3 \"` x"),
        ("\\newcommand{\\d}{\\mathrm{d}} $\\d x$ but \\'ecole", "\\newcommand{\\d}{\\mathrm{d}} $\\d x$ but école"),
        (r"\verb|\'o| \url{a\~b}", r"\verb|\'o| \url{a\~b}"),
    ],
)
def test_accents_and_letters_are_written_out(tmp_path: Path, written_as: str, text: str) -> None:
    assert written(tmp_path, written_as, "a.tex").text == text


def test_commands_of_the_author_stay_as_written(tmp_path: Path) -> None:
    paper = "\\newcommand{\\rate}{0.35}\n\\begin{document}\nIt is \\rate{} mm.\n\\end{document}\n"
    assert written(tmp_path, paper, "paper.tex").text.strip() == "It is \\rate{} mm."


# Included files


def book(folder: Path, **parts: str) -> None:
    (folder / "chapters").mkdir(parents=True, exist_ok=True)
    for name, text in parts.items():
        (folder / "chapters" / f"{name}.tex").write_text(text, encoding="utf-8")


_MAIN = (
    "\\input{chapters/macros}\n\\begin{document}\nBefore. \\input{chapters/one} After.\n"
    "\\include{chapters/two.tex}\n\\end{document}\n"
)


def test_included_files_are_read_in_place(tmp_path: Path) -> None:
    book(tmp_path, macros="\\def\\x{1}", one="One \\input chapters/three\nends.", two="Two % not\n\\'ete", three="three")
    document = written(tmp_path, _MAIN, "main.tex")
    assert document.text.split() == ["Before.", "One", "three", "ends.", "After.", "Two", "éte"]
    assert document.warnings == ()


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("chapters/none", "chapters/none"),
        ("../secret", "../secret"),
        ("{ABSOLUTE}/secret.tex", "{ABSOLUTE}/secret.tex"),
        ("chapters/link", "chapters/link"),
        ("main", "main"),
        ("a\0b", "a␀b"),
        ("chapters", "chapters"),
    ],
)
def test_a_file_that_is_not_read_is_named(tmp_path: Path, name: str, named: str) -> None:
    folder = tmp_path / "book"
    book(folder)
    (tmp_path / "secret.tex").write_text("The password is swordfish.")
    (folder / "chapters" / "link.tex").symlink_to(tmp_path / "secret.tex")
    name, named = (each.replace("{ABSOLUTE}", str(tmp_path)) for each in (name, named))
    document = written(folder, f"\\begin{{document}}\nText. \\input{{{name}}}\n\\end{{document}}", "main.tex")
    assert "swordfish" not in document.text
    assert "Text." in document.text
    (warning,) = document.warnings
    assert "not read: 1 included file (" in warning
    assert f"({named})" in warning


def test_what_is_no_inclusion_includes_nothing(tmp_path: Path) -> None:
    book(tmp_path, one="One")
    text = (
        "% \\input{chapters/one}\n\\begin{verbatim}\n\\input{chapters/one}\n\\end{verbatim}\n\\inputlineno \\includegraphics{a}"
    )
    document = written(tmp_path, text, "main.tex")
    assert "One" not in document.text
    assert document.warnings == ()


def test_files_that_include_each_other_end(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.tex").write_text(f"{name} " + "\\input{a} \\input{b} " * 50)
    assert len(load(str(tmp_path / "a.tex")).text) < 10_000
    book(tmp_path, **{f"n{n}": f"\\input{{chapters/n{n + 1}}}" * 20 for n in range(9)}, n9="x")
    assert len(written(tmp_path, "y \\input{chapters/n0}", "main.tex").text) < 100_000


def test_a_part_that_changes_is_read_again_and_a_folder_has_it_once(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 100_000_000)
    folder = tmp_path / "book"
    book(folder, macros="", one="The lamp is red.", two="The fee is 5 euros.")
    (folder / "main.tex").write_text(_MAIN)
    (folder / "other.tex").write_text("Alone.")

    def text_of(*names: str) -> str:
        files = find_files([str(folder / name) for name in names]).files
        corpus = collect(files, ReadSettings(), cache).corpus
        return " ".join(document.text for document in corpus.documents)

    for paths in (("main.tex",), ("main.tex", "other.tex"), ("",)):
        assert text_of(*paths).count("The lamp is red.") == 1
    (folder / "chapters" / "one.tex").write_text("The lamp is green.")
    for paths in (("main.tex",), ("main.tex", "other.tex"), ("",)):
        assert text_of(*paths).count("The lamp is green.") == 1
        assert "red" not in text_of(*paths)


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
        "".join(f"\\input{{a{each}}}" for each in range(50_000)),
        "{\\'" * 50_000,
        "\\L " * 50_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_files(tmp_path: Path, text: str) -> None:
    begin = process_time()
    assert len(written(tmp_path, text + "\nend", "a.tex").text) < 10 * len(text)
    assert process_time() - begin < 10
