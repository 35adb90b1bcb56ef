"""The last words in a black box, read from the format's layout alone (docs/FORMAT.md): nothing of the library's reader."""

import struct

LAST_WORDS, STATE, WORDS, STRINGS = 1216, 2240, 3936, 128
SIGNALS, EXCEPTIONS, ALLOCATIONS, ERRORS = (64, 648, 2), (1360, 912, 2), (3184, 64, 8), (3696, 512, 8)
RUNNING, EXITING, CRASHING = 1, 2, 3


def text(data):
    return data.split(b"\0", 1)[0].decode(errors="replace")


class Box:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.state, = struct.unpack_from("<I", self.data, STATE)
        self.written, self.exit_status, self.signal = struct.unpack_from("<Iii", self.data, LAST_WORDS)
        self.base, = struct.unpack_from("<Q", self.data, WORDS)
        strings, length = struct.unpack_from("<QQ", self.data, STRINGS)
        self.strings = self.data[strings:strings + length]
        self.catching, = struct.unpack_from("<I", self.data, self.base + 32)

    def entries(self, place):
        """The whole ones, by number."""
        begin, size, count = place
        found = []
        for slot in range(count):
            entry = self.data[self.base + begin + slot * size:][:size]
            commit, = struct.unpack_from("<Q", entry)
            if commit:
                found.append((commit - 1, entry))
        return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]

    def signals(self):
        found = []
        for entry in self.entries(SIGNALS):
            at, fault, stack, signal, code, sender, thread, flags, frames = struct.unpack_from("<qQQiiiIII", entry, 8)
            calls = []
            for i in range(frames):
                address, offset, module = struct.unpack_from("<QQI", entry, 72 + 24 * i)
                name = text(self.strings[module:]) if module else ""
                calls.append({"address": address, "offset": offset, "module": name})
            found.append({"at": at, "fault": fault, "stack": stack, "signal": signal, "code": code, "sender": sender,
                          "thread": thread, "flags": flags, "handled": bool(flags & 1), "overflow": bool(flags & 2),
                          "name": text(entry[56:72]), "frames": calls})
        return found

    def exceptions(self):
        found = []
        for entry in self.entries(EXCEPTIONS):
            at, language, thread = struct.unpack_from("<qII", entry, 8)
            found.append({"at": at, "language": {1: "C++", 2: "Python"}[language], "thread": thread,
                          "type": text(entry[24:152]), "message": text(entry[152:664]), "place": text(entry[664:912])})
        return found

    def allocations(self):
        names = ("at", "recovered", "bytes", "free", "total", "function", "result", "device", "thread")
        return [dict(zip(names, struct.unpack_from("<qqQQQIiiI", entry, 8))) for entry in self.entries(ALLOCATIONS)]

    def errors(self):
        names = ("at", "slot", "function", "communicator", "generation", "result", "thread", "flags")
        return [{**dict(zip(names, struct.unpack_from("<qQIIIiII", entry, 8))), "text": text(entry[48:])}
                for entry in self.entries(ERRORS)]
