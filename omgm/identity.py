"""What the answers of a profile depend on: weights, servers and precision as they are used."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from indexes.store.index import Index
from omgm.kinds.chat import build_planner
from omgm.kinds.chat_steps import ASKING
from omgm.parts import model_folder, placement
from omgm.profile import is_folder
from omgm.settings import Profile
from retriever.base_models import find_base
from retriever.files import sha256_of
from retriever.models.folder import folder_fingerprint


def used(profile: Profile, index: Index, *, answers: bool) -> dict[str, Any]:
    """Returns the content of an index and of the models that a profile's results depend on, as plain JSON.

    The index names the weights of steps 1 and 2, and of a hybrid step 3, with which it was built.

    Args:
        profile: The profile.
        index: The index.
        answers: Whether the generator answers, too.

    Raises:
        ChatError: The generator's server, which steps may ask, too, cannot be reached.
    """
    dtype = str(placement(profile)[1]).removeprefix("torch.")
    return {
        "index content": index.fingerprint,
        "precision": dtype,
        **sections_weights(profile),
        **(generator_weights(profile) if answers else {}),
        **({"generator's server": reported(profile)} if any(step.kind in ASKING for step in profile.steps) else {}),
    }


def sections_weights(profile: Profile) -> Mapping[str, str]:
    """Returns the digest of the weights of step 3, if its model has any that the index does not name."""
    model = profile.sections.model
    if profile.sections.base_url:
        return {"sections.model": f"{model} at {profile.sections.base_url}"}
    if profile.sections.kind == "bm25" or (profile.sections.kind == "hybrid" and not is_folder(model)):
        return {}
    return {"sections.model": folder_fingerprint(model_folder(profile, "sections"))}


def generator_weights(profile: Profile) -> Mapping[str, Any]:
    """Returns the digest of the generator's weights, or what its server says of its models."""
    if profile.generator.kind == "openai":
        return {"generator's server": reported(profile)}
    from generators.reader import BASE
    from generators.reader.model import WEIGHTS_FILE

    base = find_base(BASE).files["model.safetensors"].sha256
    return {"generator's weights": sha256_of(WEIGHTS_FILE), "generator's base model": base}


def reported(profile: Profile) -> Any:
    """Asks the server of a profile's chat model which models it serves, and returns its reply.

    Raises:
        ChatError: The server cannot be reached.
    """

    async def ask() -> Any:
        async with build_planner(profile) as client:
            return await client.reported()

    return asyncio.run(ask())
