"""Search spaces: which knobs of a method are searched, in which ranges, from which start points."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hsearch.errors import ConfigError
from hsearch.methods import available_methods
from hsearch.recipes import Recipe
from hsearch.search.domain import KnobRange, StartPoint
from hsearch.search.settings import searchable_settings
from hsearch.search.space_file import read_knobs, read_ranges, read_start
from hsearch.spec import KnobValue
from hsearch.yaml_file import read_yaml

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial

_COMMON = "_common"


@dataclass(frozen=True)
class SearchSpace:
    """What a study of one method searches.

    Attributes:
        method: The method's name.
        knobs: All searched knobs; a condition only names knobs that stand before it.
        start: Points worth trying first.
        published: Published values of all knobs of the method, by dotted name. Settings of the
            recipe have none here: the recipe's own value is theirs.
        left_out: Start points that cannot be tried on the data, each with the reason.
    """

    method: str
    knobs: tuple[KnobRange, ...]
    start: tuple[StartPoint, ...]
    published: Mapping[str, KnobValue]
    left_out: tuple[tuple[StartPoint, str], ...] = ()

    def distributions(self) -> dict[str, "BaseDistribution"]:
        """Returns Optuna's form of every knob, whether conditional or not."""
        return {knob.name: knob.domain.distribution() for knob in self.knobs}

    def suggest(
        self, trial: "BaseTrial", given: Mapping[str, KnobValue] | None = None
    ) -> dict[str, KnobValue]:
        """Lets an Optuna trial choose the knobs that matter.

        Args:
            trial: A trial, or anything with its `suggest_` methods.
            given: Knobs whose value is decided already; they are not drawn.

        Returns:
            The chosen values. Knobs whose condition does not hold are absent.
        """
        chosen: dict[str, KnobValue] = {}
        searched = {knob.name for knob in self.knobs}
        known = {name: value for name, value in self.published.items() if name not in searched}
        known |= given or {}
        for knob in self.knobs:
            if knob.name not in known and knob.is_active(known | chosen):
                chosen[knob.name] = knob.domain.suggest(trial, knob.name)
        return chosen

    def for_classes(self, num_classes: int) -> "SearchSpace":
        """Returns the space for data with so many training classes.

        Ranges with `high_per_class` shrink; start points that then lie outside stay, and are moved
        inside when they are tried.
        """
        knobs = [replace(k, domain=k.domain.for_classes(num_classes)) for k in self.knobs]
        return replace(self, knobs=tuple(knobs))

    def with_ranges(self, recipe: Recipe, stages: Iterable[str] = ()) -> "SearchSpace":
        """Returns the space with the ranges of a recipe in the place of the method's own.

        Args:
            recipe: Its ranges of knobs that are not searched are passed over.
            stages: Names of stages of the training, beside those that the method asks for.
        """
        if not recipe.ranges:
            return self
        for name in recipe.ranges:
            _check_searchable(recipe, name)
        settings = searchable_settings(self.method, stages)
        knobs = read_ranges(recipe.file, recipe.ranges, settings, self.knobs)
        return replace(self, knobs=tuple(knobs))


def _check_searchable(recipe: Recipe, name: str) -> None:
    """Raises for a range of what no method has."""
    known = any(name in searchable_settings(method) for method in available_methods())
    if not known and not name.startswith("stages."):
        raise recipe.file.error(f"unknown knob '{name}': no method has it.", "ranges", name)


def available_spaces() -> list[str]:
    """Returns the names of all methods with a search space, sorted."""
    return sorted(path.stem for path in _folder().glob("[!_]*.yaml"))


def load_space(method: str, path: Path | None = None, stages: Iterable[str] = ()) -> SearchSpace:
    """Returns the search space of a method, checked against its signature.

    Args:
        method: One of `available_methods()`.
        path: A file of the user's own, which then is the whole space; by default the method's file
            in `search_spaces/` together with what `_common.yaml` there says about all methods.
        stages: Names of stages of the training, beside those that the method asks for.
    """
    settings = searchable_settings(method, stages)
    if path is None and method not in available_spaces():
        raise ConfigError(
            f"There is no search space for '{method}': write search_spaces/{method}.yaml, or "
            "give a file of your own to `hsearch tune --space`."
        )
    file = read_yaml(path or _folder() / f"{method}.yaml")
    knobs = read_knobs(file, settings, {})
    if path is None:
        knobs |= read_knobs(read_yaml(_folder() / f"{_COMMON}.yaml"), settings, knobs, common=True)
    published = {n: s.published for n, s in settings.items() if s.published is not None}
    return SearchSpace(method, tuple(knobs.values()), read_start(file, settings, knobs), published)


def _folder() -> Path:
    """`search_spaces/`: inside an installed package, beside it in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "search_spaces"
    return inside if inside.is_dir() else package.parent / "search_spaces"
