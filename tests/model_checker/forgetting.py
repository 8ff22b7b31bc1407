"""What a state need not know: how transactions have ended to which nothing can come back."""

from collections.abc import Iterator

from model_checker.values import NO_TAG, Part, Records, State, tag_of, tag_of_record


def without_what_is_over(state: State) -> State:
    """`state` without the outcomes of transactions that no message, no record that may be read again and no instance
    knows any more. What follows is the same, however they ended."""
    if not state.committed and not any(part.now.decided for part in state.parts):
        return state
    live = {tag for tag in _tags(state) if tag != NO_TAG}
    committed = state.committed & sum(1 << tag for tag in live)
    parts = tuple(_part_without(part, live) for part in state.parts)
    return state._replace(committed=committed, parts=parts)


def _tags(state: State) -> Iterator[int]:
    """The transactions that something may still come back to."""
    coordinator = state.coordinator
    yield from (message.tag for message in state.messages)
    yield coordinator.tag
    yield coordinator.pending_tag
    yield from (record.tag for record in coordinator.tail)
    if coordinator.durable is not None:
        yield coordinator.durable.tag
    if coordinator.job is not None:
        yield coordinator.job.tag
    if state.outside is not None:
        yield state.outside.tag
    yield from (tag_of(index, client.number) for index, client in enumerate(state.clients) if client.is_open)
    yield from (client.ended.tag for client in state.clients if client.ended is not None)
    for part in state.parts:
        yield from (tag_of_record(name) for producer in part.now.producers for name in producer.records)
        if part.tail:
            yield from (each.tag for each in part.tail)
            yield from (tag_of_record(name) for producer in part.durable.producers for name in producer.records)


def _part_without(part: Part, live: set[int]) -> Part:
    if all(tag_of_record(name) in live for name, _ in part.now.decided):
        return part
    return part._replace(now=_without(part.now, live), durable=_without(part.durable, live))


def _without(records: Records, live: set[int]) -> Records:
    return records._replace(decided=tuple(each for each in records.decided if tag_of_record(each[0]) in live))
