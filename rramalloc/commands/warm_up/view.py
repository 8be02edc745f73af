"""View of a warm-up."""

from __future__ import annotations

from rramalloc.commands.warm_up.warm_up import WarmUp
from rramalloc.view.view import Fact, View


def warm_up_view(result: WarmUp) -> View:
    """Return the view: the compiled functions, and their folder."""
    facts = [Fact("warm-up", result.outcome), Fact("kept below", result.folder)]
    return View.of(result, kind="Warm-up", facts=facts)
