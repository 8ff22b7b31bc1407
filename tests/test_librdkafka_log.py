"""The debug log of librdkafka is read right: these lines are its own (2.16.0), of a member whose coordinator moved."""

import os
from pathlib import Path

import pytest
from librdkafka_log import explained, last_lines, lines, story

LOG = """\
%7|1795788403.500|RECV|rdkafka#consumer-11| [thrd:GroupCoordinator]: GroupCoordinator/2: Received HeartbeatResponse (v3, 6 bytes, CorrId 9, rtt 0.29ms)
%6|1795788403.900|FAIL|rdkafka#producer-9| [thrd:main]: another client
not of librdkafka
%7|1795788404.005|REQERR|rdkafka#consumer-11| [thrd:main]: GroupCoordinator/2: OffsetCommitRequest failed: Broker: Not coordinator: explicit actions Refresh,Retry,Special
%7|1795788404.005|CGRPCOORD|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changing coordinator 2 -> -1
%7|1795788404.005|CGRPSTATE|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changed state up -> query-coord (join-state steady)
%7|1795788404.005|CGRPSTATE|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changed state query-coord -> wait-coord (join-state steady)
%7|1795788404.504|RECV|rdkafka#consumer-11| [thrd:127.0.0.1:34135/2]: 127.0.0.1:34135/2: Received FindCoordinatorResponse (v2, 27 bytes, CorrId 9, rtt 499.09ms)
%7|1795788404.504|CGRPCOORD|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changing coordinator -1 -> 1
%7|1795788404.504|CGRPSTATE|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changed state wait-coord -> wait-broker-transport (join-state steady)
%7|1795788404.505|REQERR|rdkafka#consumer-11| [thrd:main]: GroupCoordinator/1: OffsetCommitRequest failed: Local: Broker transport failure: explicit actions Refresh,Retry,Special
%7|1795788404.505|CGRPCOORD|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changing coordinator 1 -> -1
%4|1795788413.278|SESSTMOUT|rdkafka#consumer-11| [thrd:main]: Consumer group session timed out (in join-state steady) after 10014 ms
%7|1795788413.637|CGRPSTATE|rdkafka#consumer-11| [thrd:main]: Group "group-d7" changed state wait-broker-transport -> up (join-state wait-unassign-call)
%7|1795788413.640|RECV|rdkafka#consumer-11| [thrd:GroupCoordinator]: GroupCoordinator/1: Received HeartbeatResponse (v3, 6 bytes, CorrId 17, rtt 1.20ms)
%7|1795788413.640|HEARTBEAT|rdkafka#consumer-11| [thrd:main]: Group "group-d7" heartbeat error response in state up (join-state wait-unassign-call, 0 partition(s) assigned): Broker: Unknown member
%7|1795788413.700|SEND|rdkafka#consumer-11| [thrd:GroupCoordinator]: GroupCoordinator/1: Sent JoinGroupRequest (v5, 174 bytes @ 0, CorrId 18)
%7|1795788415.000|SESSTMOUT|rdkafka#consumer-11| [thrd:main]: beyond the time that is asked for
"""  # noqa: E501 - as they were written


def test_a_log_tells_how_long_a_member_was_alone_and_who_refused_it() -> None:
    told = story(lines(LOG), begun_s=1795788403.0, ended_s=1795788414.0)
    assert told.unheard_s == pytest.approx(10.5)  # the refused heartbeat does not count
    assert told.without_s == pytest.approx(9.632)
    assert told.dropped == 2
    assert told.refusals == {
        "Heartbeat: Broker: Unknown member": 1,
        "OffsetCommit: Broker: Not coordinator": 1,
        "OffsetCommit: Local: Broker transport failure": 1,
    }
    assert told.slowest_s == {"Heartbeat": 0.0012, "FindCoordinator": 0.49909, "OffsetCommit": 0, "JoinGroup": 0}
    assert told.joins == 1
    assert told.timed_out


def test_the_time_before_and_after_the_move_does_not_count() -> None:
    told = story(lines(LOG), begun_s=1795788404.2, ended_s=1795788413.0)
    assert told.dropped == 1
    assert told.unheard_s == pytest.approx(8.8)
    assert not told.timed_out


def test_the_log_of_a_failure_is_a_note_of_it(tmp_path: Path) -> None:
    path = tmp_path / "consumer.log"

    def fail() -> None:
        with explained(path):
            os.write(2, LOG.encode())
            os.write(2, b"%7|1795788415.1|RECV|rdkafka#consumer-11| [thrd:main]: Received FetchResponse (v16)\n")
            raise AssertionError("no member")

    with pytest.raises(AssertionError, match="no member") as failure:
        fail()
    (note,) = failure.value.__notes__
    assert note.splitlines() == LOG.splitlines()
    assert last_lines(path, 2).splitlines() == LOG.splitlines()[-2:]
