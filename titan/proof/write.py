"""Writes certificates: a search with the checker's own steps, which finds what there is to state.

Untrusted: it proposes classes (those of the explorer's analysis), single steps and questions about
sizes, and writes down what it meets. The budget counts configurations.
"""

from __future__ import annotations

from titan.proof.check import Proof, head_of, sealed
from titan.proof.claims import claims_of
from titan.proof.commuting import alone
from titan.proof.configuration import Configuration, FaultyError, System
from titan.sync.fault import Actor, Step
from titan.sync.open_numbers import NotCoveredError, UndecidedError, parts_of
from titan.sync.program import SyncProgram

__all__ = ["STATES_MAX", "FaultyError", "write"]

Refused = tuple[Actor, int]  # steps of an agent, or of what it has in flight
STATES_MAX = 60_000
OUTER = 2**16  # how much more a pass of an outer loop counts than one of an inner loop
CHAIN_MAX = 100  # steps of one line
AHEAD_MAX = 1  # periods beyond the last of its class that a size is asked for a single step


def write(
    program: SyncProgram,
    given: dict[str, int] | None = None,
    states_max: int = STATES_MAX,
    reduce: bool = True,
) -> str:
    """The certificate of a program. Raises NotCoveredError and FaultyError."""
    sizes = dict(given or {})
    claims = claims_of(program, sizes)
    proof = Proof(System(program, sizes), claims)
    lines = [proof.line("start", (("", start) for start in proof.system.starts()))]
    writer = CertificateWriter(proof, reduce)
    passed = 0  # configurations without a line
    for number, _ in enumerate(proof.found):  # grows while lines lead to more
        lines.append(writer.line(number))
        passed += lines[-1].count(";")
        if len(proof.found) + passed > states_max:
            raise NotCoveredError(f"more than {states_max} configurations")
    proof.finish()
    return sealed("\n".join([head_of(program, sizes, claims) + lines[0], *lines[1:], ""]))


class CertificateWriter:
    """Chooses what each line says; steps that did not represent all shortly before come last."""

    def __init__(self, proof: Proof, reduce: bool) -> None:
        self.proof, self.system, self.reduce = proof, proof.system, reduce
        self.refused: set[Refused] = set()  # on the way that is followed
        self.refused_before: dict[int, set[Refused]] = {}  # on the way to a configuration
        self.beside: set[int] = set()  # configurations behind several steps, which may meet soon

    def line(self, number: int) -> str:
        """Steps that each represent all where there are, all steps where not, or a question."""
        before, after = self.proof.found[number], self.system.after
        self.refused = self.refused_before.pop(number, set())
        try:
            steps = self._steps(before)
            chosen = self._chosen(before, steps) if self.reduce and len(steps) > 1 else None
            if chosen is None:
                line = self.proof.line("all", [(s.text, after(before, s)) for s in steps])
                if len(steps) > 1:
                    self.beside |= {int(word.rpartition(">")[2]) for word in line.split()[1:]}
                return line
            steps_max = 1 if number in self.beside else CHAIN_MAX
            end, met = self._chain(before, chosen, steps_max), len(self.proof.found)
            self.refused_before[met] = self.refused  # of the next one met, often the end
            return self.proof.line("one", [end])
        except UndecidedError as question:
            return self.proof.expanded(number, "split", question.name)

    def _steps(self, before: Configuration) -> list[Step]:
        return list({step.text: step for step in self.system.steps(before)}.values())

    def _chain(
        self, before: Configuration, step: Step, steps_max: int
    ) -> tuple[str, Configuration]:
        """Steps, one after the other, of which each represents all or is the only one, and where
        they lead.

        They end where there is a choice behind the end of a pass of a loop: each pass ends where
        the last one did, in a configuration that is known.
        """
        after = self.system.after(before, step)
        words, passed = [step.text], _ends_pass(before, after, step)
        while len(words) < steps_max:
            try:
                behind = self._behind(after, passed)
                if behind is None:
                    break
                before, after = after, self.system.after(after, behind)
            except (UndecidedError, NotCoveredError):
                break
            words.append(behind.text)
            passed = passed or _ends_pass(before, after, behind)
        return ";".join(words), after

    def _behind(self, before: Configuration, passed: bool) -> Step | None:
        """The only step, or one that represents all, if no pass has ended; None: the chain ends."""
        steps = self._steps(before)
        if len(steps) > 1:
            return None if passed else self._chosen(before, steps)
        return steps[0] if steps else None

    def _chosen(self, before: Configuration, steps: list[Step]) -> Step | None:
        """A step that represents all. Raises UndecidedError where a size may find one."""
        asked: set[str] = set()
        progress = _progress(self.proof, before)

        def turn(step: Step) -> tuple[bool, bool, int]:
            agent = step.actor is Actor.AGENT
            late = (step.actor, step.agent) in self.refused
            return late, agent, progress.get(step.agent, 0) if agent else 0

        for step in sorted(steps, key=turn):
            if alone(self.system, before, step, asked):
                return step
            self.refused.add((step.actor, step.agent))
        names = {parameter.name for parameter in self.system.open}
        known = [(name.rpartition("."), name) for name in asked]
        sizes = [name for (head, _, place), name in known if head in names and place.isdigit()]
        if sizes:
            ahead, name = min((_ahead(self.proof, before, name), name) for name in sizes)
            if ahead <= AHEAD_MAX:
                raise UndecidedError(name)
        return None


def _ends_pass(before: Configuration, after: Configuration, step: Step) -> bool:
    """Whether the agent is not further in the text than it was."""
    was, now = (one.state.positions[step.agent].frames for one in (before, after))
    return step.actor is Actor.AGENT and now <= was and now != ()


def _progress(proof: Proof, before: Configuration) -> dict[int, int]:
    """How far each agent has come, by the numbers that grow; those of inner loops count less.

    Who is behind goes first: agents that do not wait for each other stay together.
    """
    inner = {parameter.name for parameter in proof.system.open if parameter.per}
    found: dict[int, int] = {}
    for agent, position, inside in proof.proposals.live(before.state):
        found[agent.number] = 0
        for entry in proof.proposals.classes:
            weight = 1 if inner & set(entry.claim.sizes) else OUTER
            falls = proof.proposals.falls(agent, inside, entry)
            for value, own in zip(position.values, falls, strict=True):
                found[agent.number] += weight * parts_of(value)[0] if own else 0
    return found


def _ahead(proof: Proof, before: Configuration, asked: str) -> int:
    """How far ahead of the last of its class the size is asked for, in periods."""
    name, _, place = asked.rpartition(".")
    known = next(size.known for size in before.sizes if size.name == name)
    bound = parts_of(known[int(place)])[0] if int(place) < len(known) else 0
    ahead = 0
    for agent, position, inside in proof.proposals.live(before.state):
        for entry in proof.proposals.classes:
            if name not in entry.claim.sizes:
                continue
            falls = proof.proposals.falls(agent, inside, entry)
            for value, own in zip(position.values, falls, strict=True):
                if own:
                    least = parts_of(value)[0]
                    ahead = max(ahead, (bound - least) // max(entry.claim.period, 4))
    return ahead
