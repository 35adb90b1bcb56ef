// The verdict in words, as `ncclwatch diagnose` has it.

const plainKind = (kind) => kind.replaceAll("_", " ");

function showVerdict(job) {
  const {diagnosis} = job, first = diagnosis.findings[0];
  const into = section("verdict");
  if (!first) into.append(...healthyText(job));
  diagnosis.findings.forEach((finding, i) => into.append(findingText(job, finding, i)));
  into.append(factsOf(job));
}

function healthyText(job) {
  const {healthy, processes, missing} = job.diagnosis;
  if (healthy || processes === 0)
    return [el("h1", {id: "verdict-heading", class: "healthy"}, healthy ? "Healthy" : "Nothing could be judged"),
      el("p", {class: "summary"}, "Nothing is wrong as far as the black boxes tell.")];
  return [el("h1", {id: "verdict-heading"}, "Nothing wrong in what was recorded"),
    el("p", {class: "summary"}, "What could show a fault is missing:"), listOf("Missing", missing, true)];
}

function findingText(job, finding, index) {
  const main = index === 0, told = job.told[index], title = el(main ? "h1" : "h2", {id: main ? "verdict-heading" : null}, whoText(finding));
  const kind = el("p", {class: "kind"}, main ? "" : finding.caused_by !== null ? "as a consequence: " : "also: ",
    el("strong", {}, plainKind(finding.kind)), ` \u00b7 ${finding.certainty}`);
  const places = finding.culprit_details.slice(0, 8).map(placeText).filter(Boolean);
  return el("article", {class: main ? "finding main" : "finding"}, kind, title,
    el("p", {class: "summary"}, told.summary),
    finding.effect ? effectText(finding) : null,
    places.length ? el("ul", {class: "places", "aria-label": "Where they are"}, places.map((text) => el("li", {}, text))) : null,
    el("div", {class: "columns"}, listOf("Why", told.evidence, main), listOf("Next", told.next_steps, main)),
    main && !job.alive ? el("p", {class: "note"}, "The job has ended: what Next says of its processes is for the next time.") : null, explanation(finding.kind));
}

function listOf(title, lines, main) {
  if (lines.length === 0) return null;
  return el("div", {class: title.toLowerCase()}, el(main ? "h2" : "h3", {}, title), el("ul", {}, lines.map((line) => el("li", {}, withCode(line, title === "Next")))));
}

// What is between back quotes is code.
function withCode(line, with_copy = false) {
  return line.split("`").flatMap((part, i) => i % 2 === 0 ? part : [el("code", {}, part), with_copy ? copyButton(part) : ""]);
}

function copyButton(text) {
  const button = el("button", {type: "button", class: "copy", "aria-label": `Copy ${text}`}, "copy");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    announce(`Copied ${text}`);
    button.textContent = "copied";
  });
  return button;
}

// What docs/DIAGNOSES.md says of the kind.
function explanation(kind) {
  const paragraphs = KIND_TEXTS[kind];
  if (!paragraphs) return null;
  return el("details", {class: "explanation"}, el("summary", {}, `What \u201c${plainKind(kind)}\u201d means`), paragraphs.map((text) => el("p", {}, withCode(text))));
}

function whoText(finding) {
  return finding.culprits.length === 0 ? "No single rank" : capital(ranksText(finding.culprits));
}

function placeText(culprit) {
  const parts = [culprit.node || culprit.host, culprit.pid ? `pid ${culprit.pid}` : null,
    culprit.gpu_uuid ? `GPU ${culprit.gpu_index ?? "?"} (${[culprit.gpu_uuid, culprit.pci_bus_id].filter(Boolean).join(", ")})` : null,
    culprit.local_rank !== null ? `local rank ${culprit.local_rank}` : null].filter(Boolean);
  return parts.length === 0 ? null : `rank ${culprit.rank}: ${parts.join(", ")}`;
}

function effectText(finding) {
  const {effect, onset, share_lost} = finding, unit = effect.unit === "1" ? "" : ` ${effect.unit}`;
  const number = (value) => value === null ? "?" : effect.unit === "s" ? seconds(value) : `${Number(value.toPrecision(4))}${unit}`;
  const parts = [`${plainKind(effect.metric)}: ${number(effect.before)} before, ${number(effect.after)} after`];
  if (effect.change !== null) parts[0] += ` (${effect.change > 0 ? "+" : ""}${percent(effect.change)})`;
  if (onset) parts.push(`since step ${whole(onset.step)}${onset.since_before ? " or before" : ""}, ${onset.at}`);
  if (share_lost !== null) parts.push(`${percent(share_lost)} of the step time is lost`);
  return el("p", {class: "effect"}, parts.join(" \u00b7 "));
}

function factsOf(job) {
  const {diagnosis} = job, {coverage} = diagnosis, hosts = diagnosis.job.hosts;
  const facts = [
    ["job", diagnosis.job.name || "without a name"], ["attempt", job.which_attempt || diagnosis.job.attempt],
    ["ranks watched", `${whole(coverage.watched)} of ${whole(coverage.expected)}`],
    ["hosts", hosts.length === 0 ? "not told" : hosts.length <= 3 ? hosts.join(", ") : `${whole(hosts.length)}`],
    ["calls", whole(job.calls.count)], ["judged at", utcText(BigInt(job.judged_ns), 3)], ["state", job.alive ? "running" : "ended"],
  ];
  return el("dl", {class: "facts"}, facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, `${value}`))));
}
