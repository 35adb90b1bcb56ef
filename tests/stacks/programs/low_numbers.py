"""low_numbers.py COMMAND PROGRAM COUNT, in a namespace of process ids of its own: COUNT dumps, a line each, of a process
whose threads have lower numbers than itself. Status 77 where the kernel does not let one choose."""

import subprocess
import sys
import time

command, program, count = sys.argv[1], sys.argv[2], int(sys.argv[3])


def next_number_after(number):
    try:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(number))
    except OSError as error:
        print(f"ns_last_pid: {error}", file=sys.stderr)
        sys.exit(77)


next_number_after(20000)
churn = subprocess.Popen([program, "churn"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
pid = int(churn.stdout.readline().split()[1])
next_number_after(300)
while True:  # until the main thread waits for its end
    with open(f"/proc/{pid}/syscall") as file:
        if file.read().split()[1:2] == ["0x0"]:
            break
    time.sleep(0.001)
for _ in range(count):
    done = subprocess.run([command, "stacks", "--json", str(pid)], stdout=subprocess.PIPE, text=True, check=True)
    print(" ".join(done.stdout.split()))
churn.kill()
