"""The scripted engine itself: a deterministic discrete-event model. Times are integers in ns.

Nothing here waits: `advance` runs steps up to a time. In virtual time the driver calls it from
event to event; in real time the server calls it at the end of each step.
"""

import math
from collections.abc import Iterable
from itertools import chain
from random import Random

from vivace.testing.job import Counters, Job, JobState
from vivace.testing.script import Script
from vivace.testing.text import (
    Prompt,
    answer_words,
    common_prefix,
    count,
    extended,
)

FOREVER_NS = 1 << 62


class EngineModel:
    """Slots, queue, prefix cache and steps of one running engine."""

    def __init__(self, script: Script, *, now_ns: int = 0, stream: str = "") -> None:
        """`stream` separates the noise of several starts of one script."""
        self.script = script
        self.now_ns = now_ns
        self.counters = Counters()
        self.dead = False
        self.hung = False
        self._random = Random(f"{script.seed}:{stream}")
        self._submitted = self._admitted = 0
        self._queue: list[Job] = []
        self._prefilling: list[Job] = []
        self._decoding: list[Job] = []
        self._held: list[Prompt] = [()] * script.slots
        self._free: list[int] = list(range(script.slots))  # least recently used first
        self._changed: list[Job] = []
        self._ends: list[int] = []  # ends of all steps since the engine was last idle
        self._end_ns: int | None = None  # of the step under way
        self._step_ns = 0
        self._chunks: list[tuple[Job, int]] = []
        self._stale = False  # the step after the one under way must be planned anew

    # -- what a client does

    def submit(
        self, prompt: Prompt, max_tokens: int, *, now_ns: int, slot: int | None = None
    ) -> Job:
        """Takes a request; a refused one comes back ended, with its status and message."""
        script = self.script
        self._settle(now_ns)
        tokens = count(prompt)
        room = script.context_tokens - tokens
        answer = min(max_tokens, room)
        if script.answer_tokens is not None:
            answer = min(answer, script.answer_tokens)
        self._submitted += 1
        sigma = script.noise_sigma
        job = Job(
            number=self._submitted,
            prompt=prompt,
            prompt_tokens=tokens,
            answer_tokens=answer,
            finish_reason="length" if answer == min(max_tokens, room) else "stop",
            submitted_ns=now_ns,
            wanted_slot=slot,
            factor=math.exp(self._random.gauss(0.0, sigma)) if sigma else 1.0,
        )
        refusal = self._refusal(tokens)
        if refusal is not None:
            job.state, job.end_ns = "error", now_ns
            job.http_status, job.error = refusal
        else:
            self._queue.append(job)
            self._stale = True
        return job

    def cancel(self, job: Job, *, now_ns: int) -> None:
        """Forgets a request. The step under way goes on to its end, as in llama.cpp."""
        if job.ended:
            return
        for jobs in (self._queue, self._prefilling, self._decoding):
            if job in jobs:
                jobs.remove(job)
        self._stale = True
        self._end(job, "cancelled", now_ns)

    # -- time

    def next_ns(self) -> int | None:
        """End of the step under way, begun now if there is none; `None`: nothing to do."""
        if self._end_ns is None:
            self._plan()
        return self._end_ns

    def advance(self, limit_ns: int) -> list[Job]:
        """Runs steps that end by `limit_ns`, up to the first after which a job has changed.

        Those jobs (first token, end) are returned and `now_ns` is when; nothing when none did.
        """
        while not self._changed:
            end_ns = self.next_ns()
            if end_ns is None or end_ns > limit_ns:
                break
            self._run_steps(end_ns, limit_ns)
        changed, self._changed = self._changed, []
        return changed

    # -- the cache

    def held(self, slot: int) -> Prompt:
        """The tokens a slot has computed or is computing."""
        return self._held[slot]

    def hold(self, slot: int, prompt: Prompt) -> None:
        """Puts tokens into a slot at no cost, as restoring a saved one does; `()` erases it."""
        self._held[slot] = prompt

    def kv_tokens(self) -> int:
        """Tokens in all slots."""
        return sum(map(count, self._held)) + sum(map(self.written, self._decoding))

    def written(self, job: Job) -> int:
        """Tokens of its answer so far."""
        if job.state != "decode":
            return job.written
        steps = len(self._ends) - 1 - job.first_step
        return min(job.answer_tokens, self.script.tokens_after(steps))

    def output_tokens(self) -> int:
        """Tokens of all answers so far."""
        return self.counters.output_tokens + sum(map(self.written, self._decoding))

    @property
    def running(self) -> int:
        """Requests that have a slot."""
        return len(self._prefilling) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    def last_piece_ns(self, job: Job) -> int:
        """When a request in flight last gave something, else when it was sent."""
        return self.now_ns if job.state == "decode" else job.submitted_ns

    def active(self) -> Iterable[Job]:
        """The requests that have a slot."""
        return (*self._prefilling, *self._decoding)

    # -- inside

    def _refusal(self, tokens: int) -> tuple[int | None, str] | None:
        """Status and message for a request that is not even queued."""
        script = self.script
        if self.dead:
            return None, "connection refused"
        if tokens >= script.context_tokens:
            return 400, (
                f"request ({tokens} tokens) exceeds the available context size "
                f"({script.context_tokens} tokens), try increasing it"
            )
        if script.error_every and self._submitted % script.error_every == 0:
            return script.error_status, "scripted error"
        return None

    def _settle(self, now_ns: int) -> None:
        """Lets an idle engine's time catch up."""
        if self._prefilling or self._decoding or self._queue:
            return
        if self._end_ns is not None and self._end_ns <= now_ns:
            self._end_ns = None
        if self._end_ns is None:
            self.now_ns = max(self.now_ns, now_ns)
            self._ends.clear()

    def _plan(self) -> None:
        self._stale = False
        if self.dead or self.hung:
            return
        self._admit()
        if self.dead or self.hung or not (self._prefilling or self._decoding):
            return
        decoding = self._decoding
        decode_s = self.script.decode_step_s(len(decoding))
        if decoding and self.script.noise_sigma:
            decode_s *= sum(j.factor for j in decoding) / len(decoding)
        self._step_ns = max(1, round(self._take_chunks() * 1e9) + round(decode_s * 1e9))
        self._end_ns = self.now_ns + self._step_ns

    def _take_chunks(self) -> float:
        """Fills the step with prompt tokens, first come first served; seconds that they take."""
        self._chunks = []
        if not self._prefilling:
            return 0.0
        budget = self.script.batch_tokens
        tokens = 0.0
        for job in self._prefilling:
            take = min(job.pending_tokens, budget)
            self._chunks.append((job, take))
            tokens += take * job.factor
            budget -= take
            if not budget:
                break
        fixed_s = self.script.prompt_step_s * self._prefilling[0].factor
        return fixed_s + tokens / self.script.prefill_tps

    def _admit(self) -> None:
        if not self._free or (not self.script.continuous and self.running):
            return
        script = self.script
        for job in tuple(self._queue):
            found = self._find_slot(job)
            if found is None:
                continue
            if self._admitted == script.dies_after:
                self._die()
                return
            if self._admitted == script.hangs_after:
                self.hung = True
                return
            self._admitted += 1
            self._begin(job, *found)
            if not self._free:
                return

    def _find_slot(self, job: Job) -> tuple[int, int] | None:
        """The free slot that holds most of the prompt, the longest unused of equals."""
        wanted = job.wanted_slot
        if wanted is not None and wanted not in self._free:
            return None
        choice = (wanted,) if wanted is not None else self._free
        if not self.script.prefix_cache:
            return choice[0], 0
        best, shared = choice[0], -1
        for slot in choice:
            common = common_prefix(job.prompt, self._held[slot])
            if common > shared:
                best, shared = slot, common
        return best, shared

    def _begin(self, job: Job, slot: int, shared: int) -> None:
        self._queue.remove(job)
        self._free.remove(slot)
        # The last prompt token is always computed: the first answer token follows from it.
        job.cached_tokens = min(shared, job.prompt_tokens - 1)
        job.pending_tokens = job.prompt_tokens - job.cached_tokens
        job.slot, job.state, job.started_ns = slot, "prefill", self.now_ns
        self._held[slot] = job.prompt
        self._prefilling.append(job)
        self.counters.cached_tokens += job.cached_tokens

    def _run_steps(self, end_ns: int, limit_ns: int) -> None:
        """The step under way, and the equal ones after it in which nothing can change."""
        step_ns, decoding, chunks = self._step_ns, self._decoding, self._chunks
        steps = 1
        if decoding and not chunks and not self._stale:
            to_first_end = min([j.last_step for j in decoding]) - len(self._ends) + 1
            steps = min(to_first_end, 1 + (limit_ns - end_ns) // step_ns)
        last_ns = end_ns + (steps - 1) * step_ns
        self._ends.extend(range(end_ns, last_ns + 1, step_ns))
        self.now_ns, self._end_ns, self._chunks = last_ns, None, []
        totals = self.counters
        totals.steps += steps
        totals.busy_slots += steps * (len(decoding) + len(chunks))
        totals.decoded += steps * len(decoding)
        if chunks:
            totals.prefill_ns += step_ns
        else:
            totals.decode_ns += steps * step_ns
        done = len(self._ends) - 1
        for job in [j for j in decoding if j.last_step == done]:
            decoding.remove(job)
            self._end(job, "ok", last_ns)
            self._changed.append(job)
        for job, take in chunks:
            self._prefill(job, take)

    def _prefill(self, job: Job, take: int) -> None:
        if job.ended:  # cancelled while the step ran
            return
        job.pending_tokens -= take
        self.counters.prompt_tokens += take
        if job.pending_tokens:
            return
        self._prefilling.remove(job)
        job.state, job.first_ns = "decode", self.now_ns
        job.first_step = len(self._ends) - 1
        steps = self.script.steps_for(job.answer_tokens)
        job.last_step = job.first_step + steps
        if steps:
            self._decoding.append(job)
        else:
            self._end(job, "ok", self.now_ns)
        self._changed.append(job)

    def _end(self, job: Job, state: JobState, now_ns: int) -> None:
        if job.slot >= 0 and not self.dead:
            self._free.append(job.slot)
        if job.state == "prefill":
            computed = job.prompt_tokens - job.pending_tokens
            self._held[job.slot] = (tuple(chain.from_iterable(job.prompt))[:computed],)
        elif job.state == "decode":
            job.written = self.written(job)
            job.steps = len(self._ends) - 1 - job.first_step
            self.counters.output_tokens += job.written
            if job.written:
                job.step_ends = self._ends[job.first_step :]
                job.words = answer_words(self.script.seed, job.prompt, job.written)
                self._held[job.slot] = extended(job.prompt, job.words)
        job.state, job.end_ns = state, now_ns

    def _die(self) -> None:
        self.dead = True
        for job in (*self._prefilling, *self._decoding, *self._queue):
            self._end(job, "error", self.now_ns)
            job.error = "connection reset: the engine died"
            self._changed.append(job)
        self._queue, self._prefilling, self._decoding = [], [], []
