"""The numbers of fields in report/perfetto_trace.cpp."""
import re

import pytest

from conftest import ROOT


def test_trace_has_perfettos_own_field_numbers():
    """Every number in report/perfetto_trace.cpp is the one that perfetto's generated protos have."""
    pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    fields = {"trace::kPacket": pb2.Trace.DESCRIPTOR.fields_by_name["packet"].number}
    names = {
        (pb2.TracePacket, "packet"): dict(kTimestamp="timestamp", kSequence="trusted_packet_sequence_id", kTrackEvent="track_event", kTrackDescriptor="track_descriptor"),
        (pb2.TrackDescriptor, "descriptor"): dict(kUuid="uuid", kName="name", kParent="parent_uuid", kCounter="counter"),
        (pb2.DebugAnnotation, "argument"): dict(kInt="int_value", kName="name", kString="string_value"),
        (pb2.TrackEvent, "event"): dict(kArgument="debug_annotations", kType="type", kTrack="track_uuid", kCategory="categories", kName="name",
                                        kDoubleValue="double_counter_value", kFlow="flow_ids", kFlowEnds="terminating_flow_ids")}
    for (message, scope), known in names.items():
        fields |= {f"{scope}::{ours}": message.DESCRIPTOR.fields_by_name[theirs].number for ours, theirs in known.items()}
    fields |= {"event::kSliceBegin": pb2.TrackEvent.TYPE_SLICE_BEGIN, "event::kSliceEnd": pb2.TrackEvent.TYPE_SLICE_END,
               "event::kCounter": pb2.TrackEvent.TYPE_COUNTER}
    text = (ROOT / "report/perfetto_trace.cpp").read_text()
    written = {f"{scope}::{name}": int(number) for scope, body in re.findall(r"namespace (\w+) \{\n((?:constexpr .*\n)+)\}", text)
               for name, number in re.findall(r"(k\w+) = (\d+);", body)}
    assert len(written) >= 21 and written == {name: fields[name] for name in written}
