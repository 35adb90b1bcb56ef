"""Tables of lines as the standard library has them, and what Python itself takes from them: input of `read_python lines`.

    line_tables.py N     of N modules (0: all)"""
import dis
import os
import sys
import sysconfig
import types


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def places(code):
    """(offset, line) of each instruction, 0 where it has none."""
    if sys.version_info >= (3, 10):
        for begin, end, line in code.co_lines():
            for offset in range(begin, end, 2):
                yield offset, line or 0
        return
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for offset in range(0, len(code.co_code), 2):
        line = starts.get(offset, line)
        yield offset, line


def main():
    most = int(sys.argv[1])
    done = 0
    print_line = sys.stdout.write
    for folder, _, names in sorted(os.walk(sysconfig.get_path("stdlib"))):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if not name.endswith(".py") or not os.path.isfile(path) or (most and done >= most):
                continue
            with open(path, "rb") as file:
                try:
                    module = compile(file.read(), name, "exec", dont_inherit=True)
                except (SyntaxError, ValueError, RecursionError):
                    continue
            done += 1
            for code in codes(module):
                table = code.co_linetable if sys.version_info >= (3, 10) else code.co_lnotab
                pairs = " ".join(f"{offset} {line}" for offset, line in places(code))
                print_line(f"{table.hex() or '-'} {code.co_firstlineno} {pairs}\n")


main()
