"""A thread asleep in a sub-interpreter; see nesting.py for the file."""
import importlib
import json
import os
import sys
import threading
import time


def interpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):  # 3.13 on; before
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def called_here(module, code):
    number = module.create()  # here: up to 3.11 what runs in it counts as the thread's that made it
    (getattr(module, "exec", None) or module.run_string)(number, code)


def main():
    path, seconds = sys.argv[1], sys.argv[2]
    module = interpreters()
    told = {"pid": os.getpid()}
    if module is None:
        told["none"] = True
    else:
        code = f"import time\ndef inner():\n    open({path + '.inner'!r}, 'w').close(); time.sleep({seconds})\n\ninner()\n"
        thread = threading.Thread(target=called_here, args=(module, code), daemon=True)
        thread.start()
        told.update(tid=thread.native_id, inner=[["inner", 3], ["<module>", 5]])
        while not os.path.exists(path + ".inner"):
            time.sleep(0.05)
    with open(path + ".new", "w") as file:
        json.dump(told, file)
    os.rename(path + ".new", path)
    time.sleep(float(seconds))


main()
