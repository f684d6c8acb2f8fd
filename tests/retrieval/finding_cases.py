"""Ten folders and ten technical documents, made by code, and 50 questions of which the words hardly meet the text's.

Written before the rules that they measure. Half of the questions, drawn by a seed, were kept for the end (`Question.kept`).
`tests/benchmarks/finding.py` prints the share of them whose evidence is among the best five passages.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from random import Random
from typing import NamedTuple

_PLACES = "quay bridge mill chapel depot orchard ferry station market reservoir tower workshop library yard".split()
_PEOPLE = "Ines Tomas Greta Olaf Maren Pavel Ruth Simon Dora Emil Nora Viktor".split()
_VERBS = "inspected repaired visited measured painted cleared reopened surveyed photographed listed".split()
_THINGS = "gates railings lamps cables boards pipes gutters windows signs benches valves ladders".split()
_SPACES = " \u00a0\u202f"
_ZH = (
    "讀者應當保持安靜並且愛護書籍",
    "館內設有閱覽室與自習室",
    "開放時間由館長另行公告",
    "遺失圖書者應按原價賠償",
    "館員協助讀者查找資料",
)


class Question(NamedTuple):
    """files: a folder or a file below the folder that was written. evidence: words of the passage that answers."""

    files: str
    text: str
    evidence: str
    kept: bool = False


def prose(seed: object, n_sentences: int) -> str:
    """Return paragraphs about nothing that is asked."""
    chance = Random(str(seed))
    said = [
        f"{chance.choice(_PEOPLE)} {chance.choice(_VERBS)} the {chance.choice(_THINGS)} of the {chance.choice(_PLACES)} and "
        f"wrote to {chance.choice(_PEOPLE)} about the {chance.choice(_THINGS)} at the {chance.choice(_PLACES)}."
        for _ in range(n_sentences)
    ]
    return "\n\n".join(" ".join(said[i : i + 5]) for i in range(0, n_sentences, 5))


def write(folder: Path) -> tuple[Question, ...]:
    """Write the documents into a folder and return the questions."""
    found = [
        Question(name, text, evidence)
        for made in (*_FOLDERS, *_DOCUMENTS)
        for name, (files, questions) in [(made.__name__.strip("_"), made())]
        for text, evidence in questions
        if _put(folder / name, files)
    ]
    chance = Random(58)
    kept = {*chance.sample(range(len(found)), len(found) // 2)}
    return tuple(each._replace(kept=i in kept) for i, each in enumerate(found))


def _put(folder: Path, files: dict[str, str | bytes]) -> bool:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return True


Made = tuple[dict[str, "str | bytes"], list[tuple[str, str]]]

# -- folders -----------------------------------------------------------------------------------------------------------------


def _clients() -> Made:
    """Only the name of the folder says whose contract it is."""
    names = "Alcott Brandt Castell Doyle Everly Fenwick Garrow Holm Ives Jarvis Kessel Lorne".split()
    files: dict[str, str | bytes] = {}
    for i, name in enumerate(names):
        files[f"{name}/contract.md"] = (
            f"# Contract\n\nThe deposit is {600 + 10 * i} euros.\n\nThe contract may be ended with {20 + i} days of notice.\n"
        )
        files[f"{name}/visits.md"] = f"# Visits\n\n{prose(name, 20)}\n"
    return files, [
        ("What is the deposit in the contract with Garrow?", "deposit is 660 euros"),
        ("How many days of notice does Kessel have?", "with 30 days"),
        ("What deposit did Doyle pay?", "deposit is 630 euros"),
    ]


def _mails() -> Made:
    """The sender and the date are in the head of a mail, and what is asked is far below it."""
    files: dict[str, str | bytes] = {}
    for i, name in enumerate(["Hanna Weiss", "Piet Vos", "Lucia Reyes", "Aldo Neri", "Mira Stone", "Jonas Lind"]):
        for month in (2, 5, 9):
            files[f"{i}{month}.eml"] = (
                f"From: {name} <{name.split()[0].lower()}@example.org>\nTo: board@example.org\nSubject: The works\n"
                f"Date: Mon, {month + i} {'Feb May Sep'.split()[(2, 5, 9).index(month)]} 2022 10:00:00 +0000\n"
                f"Content-Type: text/plain; charset=utf-8\n\n{prose((name, month), 45)}\n\n"
                f"I would accept an offer of {1000 * month + 10 * i} euros for the roof.\n\n{prose((month, name), 5)}\n"
            )
    return files, [
        ("Which offer for the roof would Lucia Reyes accept in May 2022?", "offer of 5020 euros"),
        ("Which offer for the roof would Jonas Lind accept in September?", "offer of 9050 euros"),
        ("What did Piet Vos say in February about an offer for the roof?", "offer of 2010 euros"),
    ]


def _minutes() -> Made:
    """The day is in the name of the file, as a number."""
    files: dict[str, str | bytes] = {}
    for month in range(1, 13):
        for day in (4, 18):
            files[f"2023-{month:02}-{day:02}.txt"] = (
                f"Minutes of the board.\n\n{prose((month, day), 12)}\n\nThe board chose offer number {month * 100 + day}.\n"
            )
    return files, [
        ("Which offer did the board choose on 18 June 2023?", "offer number 618"),
        ("Which offer number was chosen on March 4th, 2023?", "offer number 304"),
    ]


def _drafts() -> Made:
    """Drafts that differ in words crowd out the paper that changes the number."""
    files: dict[str, str | bytes] = {
        f"draft-{i}.md": (
            f"# Rules of the rowing club, draft {i}\n\nThe yearly fee of a member is forty euros. The fee of a member is due in "
            f"January. A member who pays the yearly fee late pays {'a further' if i % 2 else 'another'} five euros. "
            f"{prose('rules', 14)} The committee {_VERBS[i]} this draft.\n"
        )
        for i in range(9)
    }
    files["decision.md"] = f"# Decision of the meeting\n\n{prose('decision', 8)}\n\nFrom now on the fee is fifty-five euros.\n"
    files["boats.md"] = prose("boats", 40)
    return files, [
        ("How high is the yearly fee of a member?", "fee is fifty-five euros"),
        ("What is the fee of a member of the rowing club?", "fee is fifty-five euros"),
    ]


def _leases() -> Made:
    """A hundred leases that differ in names and one number; the clause asked for is in half of them."""
    files: dict[str, str | bytes] = {}
    for i in range(100):
        clause = f"Dogs are allowed if they weigh less than {i + 10} kilograms. " if i % 2 else ""
        files[f"lease-{i:03}.txt"] = (
            f"LEASE between the harbour board and tenant {_PEOPLE[i % 12]} Stade{chr(97 + i % 26)}{chr(97 + i // 26)}, who rents "
            f"unit {i + 300}. The rent is {400 + i} euros a month. The tenant keeps the unit in repair and insures the goods in "
            f"it against fire and water. {clause}The law applies. The keys are handed over on the first day of the month.\n"
        )
    return files, [
        ("What is the rent of unit 341?", "rent is 441 euros"),
        ("Are dogs allowed in the unit?", "Dogs are allowed"),
        ("What is the rent of unit 389?", "rent is 489 euros"),
    ]


def _years() -> Made:
    """A folder a year; the files have one name, and their text has no year."""
    files: dict[str, str | bytes] = {
        f"{year}/report.md": f"# Report\n\n{prose(year, 25)}\n\n## Members\n\nThe society had {year - 1800} members.\n"
        for year in range(2008, 2024)
    }
    return files, [
        ("How many members did the society have in 2014?", "had 214 members"),
        ("How many members were there in 2021?", "had 221 members"),
    ]


def _halves() -> Made:
    """A word in exactly half of the files."""
    files: dict[str, str | bytes] = {
        f"{i:02}.txt": f"{'The warranty lasts two years. ' if i % 2 else ''}{prose(('half', i), 9)}\n" for i in range(24)
    }
    return files, [
        ("How long is the warranty?", "warranty lasts two years"),
        ("warranty", "warranty lasts two years"),
    ]


def _projects() -> Made:
    """Two levels of folders."""
    files: dict[str, str | bytes] = {
        f"{town}/{work}/budget.txt": f"{prose((town, work), 12)}\n\nThe budget is {100 * i + j} thousand crowns.\n"
        for i, town in enumerate("Aldern Bexby Corran Dunmoor Eskdale".split(), 1)
        for j, work in enumerate("bridge school tramway harbour museum".split(), 1)
    }
    return files, [
        ("What is the budget of the school in Corran?", "budget is 302 thousand"),
        ("How large is the budget for the Eskdale tramway?", "budget is 503 thousand"),
    ]


def _library() -> Made:
    """Traditional characters in the text, simplified ones in the question, and the other way round."""
    chance = Random(4)

    def filler() -> str:
        return "。\n".join("，".join(chance.sample(_ZH, 3)) for _ in range(30)) + "。\n"

    files: dict[str, str | bytes] = {f"{i}.txt": filler() for i in range(8)}
    files["fees.txt"] = filler() + "\n兒童證件補辦費為參拾元。\n" + filler()
    files["rooms.txt"] = filler() + "\n会议厅须提前两周预订。\n" + filler()
    return files, [
        ("儿童证件补办费多少？", "補辦費為參拾元"),
        ("會議廳須提前多久預訂？", "须提前两周预订"),
    ]


def _shops() -> Made:
    """Names of files with numbers and dates that questions write in other forms."""
    files: dict[str, str | bytes] = {
        f"{town}_{year}.csv": "item,price\n" + "".join(f"{thing},{year - 1990 + n}\n" for n, thing in enumerate(_THINGS))
        for town in "Malvern Norrby Oakham Pelham Quorn".split()
        for year in range(2016, 2022)
    }
    return files, [("What did ladders cost in Oakham in 2019?", "ladders,40"), ("Price of valves, Quorn 2017", "valves,37")]


# -- technical documents -----------------------------------------------------------------------------------------------------


def _settings() -> Made:
    lines = [
        f"{a}_{b}_{c}: {i}\n# {prose(('set', i), 1)}"
        for i, (a, b, c) in enumerate(
            (a, b, c)
            for a in "cache session upload worker index mail".split()
            for b in "max min default total idle".split()
            for c in "size timeout retries interval depth".split()
        )
    ]
    return {"settings.yaml": "\n".join(lines) + "\n"}, [
        ("How many retries may an upload have at most (max)?", "upload_max_retries: 52"),
        ("What is the default interval of the session?", "session_default_interval: 38"),
        ("What is the idle timeout of the worker?", "worker_idle_timeout: 96"),
    ]


def _camel() -> Made:
    entries = [
        f"{verb}{noun}{rest}(int {chr(97 + i % 26)})\n    {prose(('api', i), 2)} Returns code E{4000 + i}.\n"
        for i, (verb, noun, rest) in enumerate(
            (verb, noun, rest)
            for verb in "open close reset flush merge split".split()
            for noun in "Ledger Channel Packet Cursor".split()
            for rest in "Snapshot Header Buffer Digest".split()
        )
    ]
    return {"Reference.txt": "\n".join(entries)}, [
        ("Which code is returned to reset the cursor header?", "code E4045"),
        ("Which function can merge a packet digest?", "code E4075"),
    ]


def _log() -> Made:
    lines = []
    for day in range(1, 29):
        beat = f"Z INFO heartbeat of node {day * 7 % 13}"
        lines += [f"2025-04-{day:02}T{hour:02}:15:0{hour % 10}{beat}" for hour in range(0, 24, 2)]
        lines.append(f"2025-04-{day:02}T23:50:11Z ERROR replication stopped, reason {chr(97 + day % 26)}{day * 37}")
    return {"node.log": "\n".join(lines) + "\n"}, [
        ("Why did the replication stop on 19 April 2025?", "reason t703"),
        ("Why did replication stop on April 7th?", "reason h259"),
        ("Reason of the error of replication on 2025-04-23", "reason x851"),
    ]


def _parts() -> Made:
    lines = [
        f"{letters}-{100 + i}-{letters[::-1]}: {_THINGS[i % 12]}, {_PLACES[i % 14]}, {prose(('part', i), 1)} Costs {i} crowns."
        for i, letters in enumerate(a + b + c for a in "KLMN" for b in "PQRST" for c in "UVWXYZ")
    ]
    return {"catalogue.txt": "\n".join(lines) + "\n"}, [
        ("What does part KRW114WRK cost?", "Costs 14 crowns"),
        ("Price of LTX 157 XTL?", "Costs 57 crowns"),
    ]


def _bericht() -> Made:
    """German dates and numbers."""
    months = "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split()
    said = [
        f"Am {day}.{month:02}.2021 hat der Ausschuss die Brücke besichtigt und danach den Bericht an die Stadt geschickt. "
        f"Die Kosten der Arbeiten lagen bei {month}{day:02}.500 Euro, und die Stadt hat sie nach der Prüfung bezahlt."
        for month in range(1, 13)
        for day in range(3, 27, 2)
    ]
    assert len(months) == 12
    return {"bericht.txt": "\n\n".join(said) + "\n"}, [
        ("Was kostete die Arbeit nach dem Besuch am 17. Oktober 2021?", "1017.500 Euro"),
        ("Was hat der Ausschuss am 9. Mai 2021 gemacht?", "Am 9.05.2021"),
        ("Wofür hat die Stadt 813500 Euro bezahlt?", "813.500 Euro"),
    ]


def _budget() -> Made:
    """French numbers, with spaces of three kinds, and English ones."""
    said = [
        f"La commune a versé {i + 11}{_SPACES[i % 3]}{(i * 53) % 900 + 100} euros à l'association numéro {i} pour les "
        f"travaux de la saison, et le conseil a pris acte de la dépense lors de sa séance."
        for i in range(160)
    ]
    return {"budget.txt": "\n\n".join(said) + "\n"}, [
        ("À qui la commune a-t-elle versé 97158 euros ?", "association numéro 86"),
        ("Qui a reçu 52 473 euros de la commune ?", "association numéro 41"),
        ("Pour quoi la commune a-t-elle versé 150,267 euros ?", "association numéro 139"),
    ]


def _protocol() -> Made:
    """Units that touch their numbers."""
    said = [
        f"Step {i}. Weigh {i * 7 + 3}g of salt {i % 9} and add {i * 3 + 2}ml of the solution. {prose(('lab', i), 3)}"
        for i in range(60)
    ]
    return {"protocol.txt": "\n\n".join(said) + "\n"}, [
        ("In which step are 325 g of salt weighed?", "Step 46."),
        ("In which step are 95 ml of the solution added?", "Step 31."),
    ]


def _letters() -> Made:
    """Names that are spelt out once, and then only their letters."""
    facts = [
        ("Inland Waterways Maintenance Fund", "IWMF", "is paid for by the mill owners"),
        ("Committee for Safe Harbour Lighting", "CSHL", "meets in the old customs house"),
        ("Northern Orchard Growers Association", "NOGA", "was founded by Emil Quist"),
    ]
    named = "\n\n".join(
        f"The {name} ({letters}) is one of the bodies of this report. {prose(name, 30)}" for name, letters, _ in facts
    )
    told = "\n\n".join(f"{prose(fact, 40)}\n\nThe {letters} {fact}.\n\n{prose(letters, 12)}" for _, letters, fact in facts)
    return {"report.txt": f"{named}\n\n{prose('middle', 60)}\n\n{told}\n"}, [
        ("Who pays for the Inland Waterways Maintenance Fund?", "IWMF is paid for"),
        ("Where does the Committee for Safe Harbour Lighting meet?", "CSHL meets"),
        ("By whom was the Northern Orchard Growers Association founded?", "NOGA was founded"),
    ]


def _handbook() -> Made:
    """What the text is about is in its headings alone, far above it."""
    machines = "Lathe Kiln Press Loom Crane Pump".split()
    tasks = "Cleaning Storage Transport Inspection".split()
    text = "# Handbook of the workshop\n\n" + "".join(
        f"## {machine}\n\n{prose(machine, 6)}\n\n"
        + "".join(
            f"### {task}\n\n{prose((machine, task), 28)}\n\nThis takes {10 * i + j} minutes.\n\n"
            for j, task in enumerate(tasks, 1)
        )
        for i, machine in enumerate(machines, 1)
    )
    return {"handbook.md": text}, [
        ("How many minutes does the inspection of the crane take?", "takes 54 minutes"),
        ("How many minutes does cleaning of the kiln take?", "takes 21 minutes"),
        ("The transport of the loom: how many minutes?", "takes 43 minutes"),
    ]


def _notes() -> Made:
    """A book whose notes are in a file of their own; ligatures and soft hyphens in the text."""
    facts = ["sevenpence a barrel until 1803", "nine days in a dry summer", "the widow of a rope maker"]
    asks = [
        "The lamp tax was the most hated of all",
        "The voyage to the of\u00adfshore islands was long",
        "The o\ufb03ce of the pilots had one owner",
    ]
    chapters = {
        f"c{i}.xhtml": f"<h1>Chapter {i}</h1>"
        + "".join(f"<p>{each}</p>" for each in prose(("note", i), 30).split("\n\n"))
        + (f'<p>{asks[i // 3]}.<a href="notes.xhtml#n{i}"><sup>{i + 1}</sup></a></p>' if i % 3 == 0 and i < 9 else "")
        + "".join(f"<p>{each}</p>" for each in prose(("after", i), 15).split("\n\n"))
        for i in range(12)
    }
    notes = "".join(
        f'<p id="n{i}">{i + 1}. {facts[i // 3].capitalize() if i % 3 == 0 and i < 9 else prose(("n", i), 4)}.</p>'
        for i in range(12)
    )
    return {"book.epub": _epub({**chapters, "notes.xhtml": f"<h1>Notes</h1>{notes}"})}, [
        ("How high was the lamp tax?", "Sevenpence a barrel"),
        ("How long was the voyage to the offshore islands?", "Nine days"),
        ("Who owned the office of the pilots?", "The widow of a rope maker"),
    ]


def _epub(pages: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        book.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        book.writestr("META-INF/container.xml", f'{container}<rootfile full-path="book.opf"/></rootfiles></container>')
        items = "".join(f'<item id="i{i}" href="{name}" media-type="application/xhtml+xml"/>' for i, name in enumerate(pages))
        spine = "".join(f'<itemref idref="i{i}"/>' for i in range(len(pages)))
        package = f'<package xmlns="http://www.idpf.org/2007/opf"><manifest>{items}</manifest><spine>{spine}</spine></package>'
        book.writestr("book.opf", package)
        for name, body in pages.items():
            book.writestr(name, f"<html><body>{body}</body></html>")
    return out.getvalue()


_FOLDERS = (_clients, _mails, _minutes, _drafts, _leases, _years, _halves, _projects, _library, _shops)
_DOCUMENTS = (_settings, _camel, _log, _parts, _bericht, _budget, _protocol, _letters, _handbook, _notes)
