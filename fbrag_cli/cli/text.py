"""`fbrag text`: the text that fbrag extracts from documents, with line and page numbers."""

from __future__ import annotations

from fbrag_cli.cli.command import command
from fbrag_cli.cli.console import Console
from fbrag_cli.cli.live import progress_line
from fbrag_cli.cli.option import option
from fbrag_cli.cli.options import Options, PasswordOptions, RunOptions, arguments, check_outputs, files_of, output_file
from fbrag_cli.cli.session import open_session
from fbrag_cli.cli.signals import limit_time
from fbrag_cli.cli.streams import open_output, open_stdin, read_password
from fbrag_cli.cli.usage import check_no_address, check_stdin
from fbrag_cli.errors import ExitCode, FbragError
from fbrag_cli.session.settings import CacheSettings, DocumentSettings, ModelSettings
from fbrag_cli.text.printable import one_line, printable
from fbrag_cli.text.table import columns_of


class TextOptions(PasswordOptions):
    group = "Document"

    arguments: list[str] = arguments("files or folders to print ('-' for stdin)", "DOC...", required=True)
    plain: bool = option(False, "print the text alone, without line and page numbers; offsets in JSON count its characters")
    output: str = output_file(group="Output")


class TextCommand(Options):
    text: TextOptions
    reading: DocumentSettings
    cache: CacheSettings
    run: RunOptions


@command(TextCommand)
def text(console: Console, command: TextCommand) -> int:
    """Print the text of documents, with line and page numbers.

    \b
    Examples:
      fbrag text report.pdf
      fbrag text report.pdf --pages 3-9 -o report.txt
      fbrag text report.docx --plain | wc -w
      curl -s https://example.com/a.html | fbrag text -
    """
    limit = limit_time(command.run.time_limit, console.cancellation)
    options = command.text
    paths = options.arguments
    check_no_address(paths)
    check_stdin([*paths, options.password_file])
    check_outputs([("-o", options.output)], [*files_of(paths, command.reading), options.password_file])
    private = options.password_file is not None
    with (
        open_output(options.output) as stream,
        progress_line(console) as line,
        open_session(ModelSettings(), command.cache, console, line, private=private) as session,
        limit,
    ):
        from fbrag_cli.render.explain_text import numbered

        password = read_password(options.password_file, console)
        stdin = open_stdin(console) if "-" in paths else None
        documents = session.collect(paths, command.reading, password=password, stdin=stdin).corpus.documents
        if options.plain:
            if len(documents) > 1:
                raise FbragError("usage", f"--plain prints one document, not {len(documents)}", "name one file")
            stream.write(printable(documents[0].text) if stream.isatty() else documents[0].text)
            return ExitCode.DONE
        for document in documents:
            if len(documents) > 1:
                stream.write(f"=== {one_line(document.name)}\n")
            stream.writelines(f"{each}\n" for each in numbered(document, columns_of(stream)))
    return ExitCode.DONE
