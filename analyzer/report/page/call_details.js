// A chosen call, and what the other ranks did.

const MOST_MEMBERS = 32, MOST_WHEREABOUTS = 64;

function callDetails(job, call, members, choose) {
  const row = call.process.row(call.i);
  const title = `${callText(row)}${row.position === null ? "" : ` #${row.position}`}`;
  announce(`rank ${call.process.rank}: ${title}, ${row.pending ? "has not ended" : stateText(row.state)}`);
  const facts = [
    ["rank", `${row.rank} (${row.host} pid ${row.pid})`],
    ["communicator", row.communicator ? `${communicatorText(row.communicator, row.label)} (${row.communicator})` : null],
    ["called at", row.entered],
    [row.pending ? "for" : "took", seconds(row.duration_s)],
    ["kernel", row.kernel ? seconds(row.kernel.duration_s) : null],
    ["state", stateText(row.state) + (row.result && row.result !== "success" ? `: ${row.result}` : "")],
    ["bytes", row.bytes === null ? null : whole(row.bytes)],
    ["stream", row.stream], ["thread", row.thread], ["number in its process", row.seq],
    ["called from", siteText(row.site, row.site_text)],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("div", {}, el("h3", {}, title),
    el("dl", {}, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, `${value}`)))),
    members.length > 1 || call.process.of(call.i).kind === KIND.collective ? membersTable(job, row, members, choose) : null);
}

function membersTable(job, row, members, choose) {
  const first = Math.min(...members.map(({process, i}) => process.start[i]));
  const sorted = [...members].sort((a, b) => b.process.start[b.i] - a.process.start[a.i]);
  const shown = sorted.length <= MOST_MEMBERS ? [...members] : [...sorted.slice(0, MOST_MEMBERS / 2), ...sorted.slice(-MOST_MEMBERS / 2)];
  const rows = shown.map((one) => {
    const {process, i} = one, shape = process.of(i);
    const link = el("button", {type: "button", class: "link", onclick: () => choose(one)}, `${process.rank}`);
    return [link, {text: `+${seconds((process.start[i] - first) / 1e9)}`, number: true}, shape.op, process.pendings.has(i) ? "has not ended" : "ended",
      {text: seconds((process.end[i] - process.start[i]) / 1e9), number: true}];
  });
  const absent = absentFrom(job, row, members);
  if (absent.length > 0) rows.unshift({class: "culprit", cells: [`\u25b6 ${rankSet(absent)}`, "", "no recorded call", "", ""]});
  const left_out = sorted.length - shown.length;
  return el("div", {}, table(`The call on its ${plural(members.length, "rank")}`, ["rank", {text: "called", number: true}, "call", "state", {text: "took", number: true}], rows),
    left_out > 0 ? el("p", {class: "note"}, `The ${MOST_MEMBERS / 2} last and the ${MOST_MEMBERS / 2} first to call; ${whole(left_out)} more came between.`) : null);
}

// Members of the communicator that have not come to this position, as its counts tell.
function absentFrom(job, row, members) {
  const communicator = job.communicators.find((one) => one.id === row.communicator);
  if (!communicator || row.position === null || row.peer !== null) return [];
  const here = new Set(members.map(({process}) => process.rank));
  return communicator.ranks.filter((rank, i) => !here.has(rank) && communicator.called[i] <= row.position);
}

// The newest call of each rank when the job was judged; ranks whose calls are alike in one line.
function whereabouts(job, processes) {
  const gone = new Set(job.processes.filter((one) => one.gone).flatMap((one) => one.ranks)), groups = new Map();
  for (const process of processes) {
    const judged = Number(BigInt(job.judged_ns) - process.origin), i = process.from(judged + 1) - 1;
    if (i < 0) continue;
    const row = process.row(i), open = process.pendings.has(i);
    const cells = [callText(row), row.position === null ? "" : `#${whole(row.position)}`, communicatorText(row.communicator, row.label),
      open ? "has not ended" : stateText(row.state), gone.has(process.rank) ? "gone" : ""];
    const key = cells.join("\n"), group = groups.get(key) || {cells, ranks: [], longest: 0};
    group.ranks.push(process.rank);
    group.longest = Math.max(group.longest, judged - process.start[i]);
    groups.set(key, group);
  }
  const rows = [...groups.values()].sort((a, b) => a.ranks.length - b.ranks.length).slice(0, MOST_WHEREABOUTS);
  return table("The newest call of each rank", ["ranks", "newest call", "position", "communicator", "state", "process", {text: "called, before the verdict", number: true}],
    rows.map((group) => [ranksText(group.ranks), ...group.cells, {text: seconds(group.longest / 1e9), number: true}]));
}
