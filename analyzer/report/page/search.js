// Search: a rank, a position (#1042), an operation, a communicator. What is found is chosen on the timeline.

const MOST_RESULTS = 12;

// {text, call}, at most MOST_RESULTS.
function search(timeline, words) {
  const text = words.trim().toLowerCase(), results = [];
  if (!text) return results;
  const {processes} = timeline;
  const add = (what, call) => { if (call && results.length < MOST_RESULTS) results.push({text: what, call}); };
  const rank = text.match(/^(?:rank\s*)?(\d+)$/), position = text.match(/^#\s*(\d+)$/);
  if (rank) for (const process of processes.filter((one) => one.rank === Number(rank[1]))) add(`rank ${process.rank}: its last call`, lastCall(process));
  if (position) for (const one of communicatorsOf(processes).values()) {
    const [found] = membersAt(processes, one.id, Number(position[1]));
    if (found) add(`#${position[1]} of ${communicatorText(one.id, one.label)}: ${found.process.of(found.i).op}`, found);
  }
  if (rank || position) return results;
  for (const [op, found] of lastByOp(processes, text)) add(`${op}: the last of ${plural(found.count, "call")}`, found.call);
  for (const one of communicatorsOf(processes).values())
    if (one.id.startsWith(text) || one.label.toLowerCase().includes(text)) add(`communicator ${communicatorText(one.id, one.label)}`, lastIn(processes, one.id));
  return results;
}

const lastCall = (process) => process.calls > 0 ? {process, i: process.calls - 1} : null;

function communicatorsOf(processes) {
  const known = new Map();
  for (const process of processes) for (const shape of process.shapes) if (shape.communicator) known.set(shape.communicator, {id: shape.communicator, label: shape.label});
  return known;
}

function lastIn(processes, id) {
  for (const process of processes) {
    const i = lastOf(process, (shape) => shape.communicator === id, () => true);
    if (i >= 0) return {process, i};
  }
  return null;
}

function lastByOp(processes, text) {
  const found = new Map();
  for (const process of processes) {
    const counts = new Array(process.shapes.length).fill(0), last = [];
    process.shape.forEach((shape, i) => { ++counts[shape]; last[shape] = i; });
    process.shapes.forEach(({op}, shape) => {
      if (!op.toLowerCase().includes(text) || counts[shape] === 0) return;
      const known = found.get(op) || {count: 0, call: {process, i: last[shape]}};
      known.count += counts[shape];
      if (process.start[last[shape]] > known.call.process.start[known.call.i]) known.call = {process, i: last[shape]};
      found.set(op, known);
    });
  }
  return found;
}

function bindSearch(timeline) {
  const input = section("search-text"), list = section("search-results");
  const close = () => { list.hidden = true; };
  const take = (result) => {
    close();
    section("timeline").scrollIntoView();
    timeline.choose(result.call, true);
  };
  const show = () => {
    const results = search(timeline, input.value);
    list.replaceChildren(...results.map((result) => el("li", {}, el("button", {type: "button", onclick: () => take(result)}, result.text))));
    if (results.length === 0 && input.value.trim()) list.append(el("li", {class: "none"}, "nothing found"));
    list.hidden = !input.value.trim();
    return results;
  };
  let soon = 0;
  input.addEventListener("input", () => {
    clearTimeout(soon);
    soon = setTimeout(show, 120);
  });
  section("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const [first] = show();
    if (first) take(first);
  });
  input.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
}
