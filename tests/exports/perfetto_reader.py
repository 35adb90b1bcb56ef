"""Traces of Perfetto, read by the messages that its own Python package brings. What its trace processor does with them is done
here: interned texts, clocks of sequences, slices from their begins and ends."""

import collections

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

BEGIN, END, INSTANT = 1, 2, 3
BOOTTIME = 6
CLEARED, NEEDS = 1, 2

Slice = collections.namedtuple("Slice", "process track lane name category begin_ns end_ns args flows")
Instant = collections.namedtuple("Instant", "process track name at_ns args")


class Sequence:
    def __init__(self):
        self.interned = collections.defaultdict(dict)
        self.zero_ns = {}
        self.clock = None

    def take(self, packet):
        if packet.sequence_flags & CLEARED:
            self.interned.clear()
        if packet.HasField("clock_snapshot"):
            at = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            self.zero_ns = {clock: at[BOOTTIME] - when for clock, when in at.items()}
        if packet.HasField("trace_packet_defaults"):
            self.clock = packet.trace_packet_defaults.timestamp_clock_id
        for field, entries in packet.interned_data.ListFields():
            for entry in entries:
                text = entry.str if field.name == "debug_annotation_string_values" else entry.name
                assert entry.iid not in self.interned[field.name], f"{field.name} {entry.iid} twice"
                self.interned[field.name][entry.iid] = text.decode() if isinstance(text, bytes) else text

    def args(self, event):
        found = {}
        for one in event.debug_annotations:
            kind = one.WhichOneof("value")
            value = getattr(one, kind)
            name = self.interned["debug_annotation_names"][one.name_iid]
            found[name] = self.interned["debug_annotation_string_values"][value] if kind == "string_value_iid" else value
        return found


class Trace:
    """slices, instants; counters by (process, name): [(at, value)]; processes: names; tracks: (process, name) of lanes."""

    def __init__(self, data):
        self.slices, self.instants, self.counters, self.tracks, self.names = [], [], collections.defaultdict(list), {}, {}
        sequences, events = collections.defaultdict(Sequence), []
        for packet in schema.Trace.FromString(data).packet:
            sequence = sequences[packet.trusted_packet_sequence_id]
            sequence.take(packet)
            if packet.HasField("track_descriptor"):
                self.describe(packet.track_descriptor)
            if packet.HasField("track_event"):
                assert packet.sequence_flags & NEEDS
                events.append((packet.timestamp + sequence.zero_ns[sequence.clock], len(events), sequence, packet.track_event))
        open_slices = {}
        for at, _, sequence, event in sorted(events, key=lambda one: one[:2]):
            self.event(at, sequence, event, open_slices)
        for begun in open_slices.values():
            self.slices.append(begun)

    @property
    def processes(self):
        return sorted({process for process, _ in self.tracks.values() if process})

    def describe(self, track):
        assert track.uuid not in self.tracks, f"track {track.uuid} twice"
        if track.HasField("process"):
            self.names[track.uuid] = track.process.process_name
            self.tracks[track.uuid] = (track.process.process_name, "")
        else:
            self.tracks[track.uuid] = (self.names.get(track.parent_uuid, ""), track.name)

    def event(self, at, sequence, event, open_slices):
        process, track = self.tracks[event.track_uuid]
        name = sequence.interned["event_names"].get(event.name_iid)
        for uuid, value in [*zip(event.extra_counter_track_uuids, event.extra_counter_values),
                            *zip(event.extra_double_counter_track_uuids, event.extra_double_counter_values)]:
            self.counters[self.tracks[uuid]].append((at, value))
        if event.type == BEGIN:
            assert event.track_uuid not in open_slices, f"slices overlap on lane {event.track_uuid} of {track}"
            category, = (sequence.interned["event_categories"][iid] for iid in event.category_iids)
            open_slices[event.track_uuid] = Slice(process, track, event.track_uuid, name, category, at, None,
                                                  sequence.args(event), list(event.flow_ids))
        elif event.type == END:
            self.slices.append(open_slices.pop(event.track_uuid)._replace(end_ns=at))
        else:
            self.instants.append(Instant(process, track, name, at, sequence.args(event)))


def read(*paths):
    return [Trace(open(path, "rb").read()) for path in paths]
