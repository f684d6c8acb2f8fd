"""`State`: what the routes of the server share."""

from __future__ import annotations

from dataclasses import dataclass, field

from fbrag_cli.serving.desk import Desk
from fbrag_cli.serving.door import Door
from fbrag_cli.serving.library import Library
from fbrag_cli.serving.lifetime import Lifetime
from fbrag_cli.session.session import Session


@dataclass(frozen=True, kw_only=True)
class State:
    """What the routes share. door: lets through the paths that clients may name. lifetime: of the process."""

    session: Session
    desk: Desk
    library: Library
    door: Door
    lifetime: Lifetime = field(default_factory=Lifetime)
