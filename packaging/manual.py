#!/usr/bin/env python3
"""Man pages, and completions for bash, zsh and fish, from what the command says of itself (`ncclwatch help --json`).

    packaging/manual.py --command build/release/bin/ncclwatch OUT      # writes OUT/share/{man,bash-completion,...}
"""

import argparse
import json
import os
import re
import subprocess

EXIT_STATUS = [("0", "healthy, or done"), ("1", "a problem was found"), ("2", "the command line was wrong"),
               ("3", "an input could not be read")]


def write(root, path, text):
    path = os.path.join(root, "share", path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


# ---- man pages (man(7)) -----------------------------------------------------------------------------------------

def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def paragraphs(text):
    """Lines that begin with spaces are examples and stay as they are."""
    out = []
    for paragraph in text.strip().split("\n\n"):
        lines, example = paragraph.split("\n"), False
        out.append(".PP")
        for line in lines:
            if line.startswith(" ") != example:
                example = not example
                out += [".RS", ".nf"] if example else [".fi", ".RE"]
            if line.strip():
                out.append(roff(line.strip() if example else line))
        if example:
            out += [".fi", ".RE"]
    return out


def page_head(name, summary, version):
    return [f'.TH {name.upper()} 1 "" "{version}" "User Commands"', ".SH NAME", f"{roff(name)} \\- {roff(summary)}"]


def option_head(option):
    names = ", ".join(f"\\fB{roff(name)}\\fR" for name in option["names"])
    return names + (f" \\fI{roff(option['value'])}\\fR" if option["value"] else "")


def command_page(command, version):
    name = command["command"]
    lines = page_head(f"ncclwatch-{name}", command["summary"], version)
    lines += [".SH SYNOPSIS", f"\\fBncclwatch {roff(name)}\\fR {roff(command['synopsis'])}", ".SH DESCRIPTION"]
    lines += paragraphs(command["description"])
    entries = [(f"\\fI{roff(one['name'])}\\fR", one["meaning"]) for one in command["positionals"]]
    entries += [(option_head(option), option["meaning"]) for option in command["options"]]
    lines.append(".SH OPTIONS")
    for head, meaning in entries:
        lines += [".TP", head, roff(meaning)]
    lines += [".SH EXAMPLES", ".nf", *map(roff, command["examples"]), ".fi"]
    if "Exit status" not in command["description"]:
        lines.append(".SH EXIT STATUS")
        for status, meaning in EXIT_STATUS:
            lines += [".TP", status, meaning]
    return "\n".join(lines + [".SH SEE ALSO", "\\fBncclwatch\\fR(1)"]) + "\n"


def main_page(commands, version):
    lines = page_head("ncclwatch", "find out which rank hangs a distributed job, in which call, and why", version)
    lines += [".SH SYNOPSIS", "\\fBncclwatch run\\fR [\\fIOPTIONS\\fR] \\fB\\-\\-\\fR \\fICMD\\fR...", ".br",
              "\\fBncclwatch\\fR \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]", ".SH DESCRIPTION"]
    lines += paragraphs("ncclwatch watches jobs of NCCL and MPI. A library is preloaded into every rank. It records each call in "
                        "shared memory, which outlives the process. A watchdog thread compares the ranks, finds hangs, "
                        "mismatched calls, deadlocks and dead ranks, and says which rank is to blame and why.")
    lines.append(".SH COMMANDS")
    for command in commands:
        lines += [".TP", f"\\fBncclwatch\\-{roff(command['command'])}\\fR(1)", roff(command["summary"])]
    lines.append(".SH EXIT STATUS")
    for status, meaning in EXIT_STATUS:
        lines += [".TP", status, meaning]
    lines += [".SH FILES", ".TP", "\\fI/etc/ncclwatch.conf\\fR", "defaults and limits of the administrator",
              ".TP", "\\fI/usr/share/doc/ncclwatch\\fR", "variables, kinds of findings, deployment"]
    return "\n".join(lines) + "\n"


# ---- completions ------------------------------------------------------------------------------------------------

def words(command):
    return [name for option in command["options"] for name in option["names"] if name.startswith("--")]


def bash(commands):
    cases = "\n".join(f"    {one['command']}) words='{' '.join(words(one))}' ;;" for one in commands)
    names = " ".join(one["command"] for one in commands)
    return f"""# bash completion for ncclwatch
_ncclwatch() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '{names} --help --version' -- "$current"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do  # what follows -- is a command of its own
    if [ "${{COMP_WORDS[i]}}" = -- ]; then
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); else compopt -o default; fi
      return
    fi
  done
  case ${{COMP_WORDS[1]}} in
{cases}
    *) return ;;
  esac
  case $current in
    -*) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    *) compopt -o default ;;
  esac
}}
complete -F _ncclwatch ncclwatch
"""


def quoted(text):
    return text.replace("'", "'\\''")


def zsh(commands):
    listed = "\n".join(f"    '{one['command']}:{quoted(one['summary'])}'" for one in commands)
    cases = []
    for one in commands:
        specs = []
        for option in one["options"]:
            meaning = re.sub(r"([\[\]:])", r"\\\1", quoted(option["meaning"]))
            value = f":{option['value']}:_files" if option["value"] else ""
            specs += [f"'{name}[{meaning}]{value}'" for name in option["names"]]
        tail = "'*::command:_normal'" if one["command"] == "run" else "'*:file:_files'"
        cases.append(f"    {one['command']})\n      _arguments {' '.join(specs)} {tail} ;;")
    return f"""#compdef ncclwatch
_ncclwatch() {{
  local -a commands=(
{listed}
  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{chr(10).join(cases)}
  esac
}}
_ncclwatch "$@"
"""


def fish(commands):
    lines = ["# fish completion for ncclwatch", "complete -c ncclwatch -n __fish_use_subcommand -f"]
    for one in commands:
        name = one["command"]
        lines.append(f"complete -c ncclwatch -n __fish_use_subcommand -f -a {name} -d '{fish_quoted(one['summary'])}'")
        for option in one["options"]:
            flags = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in option["names"])
            value = " -r" if option["value"] else ""
            lines.append(f"complete -c ncclwatch -n '__fish_seen_subcommand_from {name}' {flags}{value} "
                         f"-d '{fish_quoted(option['meaning'])}'")
    return "\n".join(lines) + "\n"


def fish_quoted(text):
    return text.replace("\\", "\\\\").replace("'", "\\'")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--command", required=True)
    parser.add_argument("out")
    arguments = parser.parse_args()
    said = subprocess.run([arguments.command, "help", "--json"], check=True, capture_output=True, text=True).stdout
    commands = [json.loads(line) for line in said.splitlines()]
    version = subprocess.run([arguments.command, "--version"], check=True, capture_output=True, text=True).stdout
    version = version.split(",")[0].strip()
    out = arguments.out
    write(out, "man/man1/ncclwatch.1", main_page(commands, version))
    for command in commands:
        write(out, f"man/man1/ncclwatch-{command['command']}.1", command_page(command, version))
    write(out, "bash-completion/completions/ncclwatch", bash(commands))
    write(out, "zsh/vendor-completions/_ncclwatch", zsh(commands))
    write(out, "fish/vendor_completions.d/ncclwatch.fish", fish(commands))


if __name__ == "__main__":
    main()
