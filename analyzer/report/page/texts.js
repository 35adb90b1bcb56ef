// Numbers and names as people read them.

const whole = (number) => Number(number).toLocaleString("en-US");

function seconds(value) {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-6) return `${(value * 1e9).toFixed(0)} ns`;
  if (size < 1e-3) return `${trimmed(value * 1e6)} µs`;
  if (size < 1) return `${trimmed(value * 1e3)} ms`;
  if (size < 120) return `${trimmed(value)} s`;
  if (size < 7200) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round(value % 3600 / 60)} min`;
}

const trimmed = (value) => value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0);
const percent = (share) => `${trimmed(share * 100)} %`;
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  return `${power === 0 ? whole(bytes) : trimmed(bytes / 2 ** (10 * power))} ${units[power]}`;
}

const plural = (count, noun) => `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;

// [0,1,2,5] -> "0-2,5", as the diagnosis writes it.
function rankSet(ranks) {
  const sorted = [...ranks].sort((a, b) => a - b), parts = [];
  for (let i = 0; i < sorted.length;) {
    let last = i;
    while (last + 1 < sorted.length && sorted[last + 1] === sorted[last] + 1) ++last;
    parts.push(last > i ? `${sorted[i]}-${sorted[last]}` : `${sorted[i] < 0 ? "?" : sorted[i]}`);
    i = last + 1;
  }
  return parts.join(",");
}

function ranksText(ranks) {
  if (ranks.length === 0) return "no rank";
  if (ranks.every((rank) => rank < 0)) return "unknown ranks";
  const set = rankSet(ranks), short = set.length > 48 ? set.slice(0, 45) + "..." : set;
  return ranks.length === 1 ? `rank ${short}` : `ranks ${short}`;
}

// "AllReduce of 4,096 float32 (sum)"
function callText(call) {
  if (!call.op) return "no call";
  let text = call.op;
  if (call.count !== null && call.count !== undefined) text += ` of ${whole(call.count)}`;
  if (call.dtype) text += ` ${call.dtype}`;
  if (call.reduction) text += ` (${call.reduction})`;
  if (call.root !== null && call.root !== undefined) text += `, root ${call.root}`;
  const peer = typeof call.peer === "object" && call.peer ? call.peer.communicator_rank : call.peer;
  if (peer !== null && peer !== undefined) text += ` with rank ${peer} of the communicator`;
  if (call.payload) text += ` = ${call.payload}`;
  return text;
}

function siteText(site, otherwise) {
  if (!site || !site.file) return otherwise || "";
  return `${site.file.split("/").pop()}:${site.line}${site.function ? ` in ${site.function}` : ""}`;
}

const STATES = {
  not_called: "not called", entered: "inside the call", returned: "enqueued", started: "begun on the GPU",
  finished: "finished", failed: "failed", not_observed: "not observed",
};
const capital = (text) => text[0].toUpperCase() + text.slice(1);

const stateText = (state) => STATES[state] || state;

// Labels by identity, and how many communicators have each.
const LABELS = new Map(), BEARERS = new Map();

function nameCommunicators(communicators) {
  for (const one of communicators.filter((each) => each.label && !LABELS.has(each.id))) {
    LABELS.set(one.id, one.label);
    BEARERS.set(one.label, (BEARERS.get(one.label) || 0) + 1);
  }
}

// A call may be older than the label.
function communicatorText(id, label) {
  const name = label || LABELS.get(id);
  if (!name) return id ? id.slice(0, 8) : "no communicator";
  return BEARERS.get(name) > 1 ? `${name} ${id.slice(0, 8)}` : name;
}

// Of nanoseconds since 1970, as a BigInt.
function utcText(ns, digits = 6) {
  const date = new Date(Number(ns / 1000000n)).toISOString().slice(0, 19);
  return `${date}.${String(ns % 1000000000n).padStart(9, "0").slice(0, digits)}Z`;
}
