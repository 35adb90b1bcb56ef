// Puts the page together: first what needs no call, then the calls.

async function main() {
  let timeline = null;
  bindTheme(() => { if (timeline) timeline.changed(); });
  const job = JSON.parse(section("job").textContent);
  document.title = `${job.diagnosis.findings.length ? whoText(job.diagnosis.findings[0]) + ": " + plainKind(job.diagnosis.findings[0].kind) : job.diagnosis.healthy ? "healthy" : "nothing found"} \u2013 ncclwatch`;
  section("job-name").textContent = job.diagnosis.job.name || job.name;
  section("made").textContent = `Made by ncclwatch report from ${job.name}, ${utcText(BigInt(job.made_ns), 0).replace(".Z", "Z")}.`;
  nameCommunicators(job.communicators);
  showVerdict(job);
  showStacks(job);
  showProgress(job);
  showSteps(job);
  showIdeal(job);
  showPeers(job);
  showEnvironment(job);
  showCoverage(job);
  const loading = section("timeline").appendChild(el("p", {class: "note"}, "Unpacking the calls ..."));
  const processes = await readCalls(job, (done) => { loading.textContent = `Unpacking the calls of rank ${whole(done)} ...`; });
  loading.remove();
  openWaits(job, processes);
  showWaits(job, processes);
  showDifferences(job, processes);
  if (processes.some((process) => process.calls > 0)) {
    timeline = new Timeline(job, processes);
    bindSearch(timeline);
  } else section("timeline").append(el("p", {class: "note"}, "No call was recorded."));
  showContents();
  // For scripts that look at the page.
  window.ncclwatch = {job, processes, timeline};
  document.body.setAttribute("data-ready", "");
}

// Links to what the page has. A section with nothing but a sentence becomes a line at the end.
function showContents() {
  const sections = [...document.querySelectorAll("main > section")], empty = [];
  for (const one of sections.filter((each) => each.id !== "verdict")) {
    const [heading, ...rest] = one.children;
    if (rest.length === 0 || !rest.every((child) => child.matches("p.note"))) {
      section("contents").append(el("a", {href: `#${one.id}`}, heading.textContent));
      continue;
    }
    one.hidden = true;
    empty.push(el("li", {}, `${heading.textContent}: ${rest.map((child) => child.textContent).join(" ")}`));
  }
  if (empty.length > 0) section("coverage").append(el("h3", {}, "Nothing to show"), el("ul", {class: "note"}, empty));
}
