// Ranks by time: a canvas that is panned and zoomed with the mouse (D3), the keyboard and buttons.

const GUTTER = 92, HEAD = 26, MOST_HEIGHT = 460, ROW = 20;
const KEYS = "Arrow keys move, + and - zoom in time, [ and ] in ranks, Enter chooses the call in the middle, N and P the " +
  "next and the previous call of its rank, J and K the next and the previous rank, F goes to the fault, 0 shows everything, Escape lets go.";

class Timeline {
  constructor(job, processes) {
    this.job = job;
    this.processes = processes;
    this.rows = new Map(processes.map((process, row) => [process, row]));
    const first_finding = job.diagnosis.findings[0];
    this.culprits = new Set(first_finding ? first_finding.culprits : []);
    this.ended_well = !first_finding || Boolean(first_finding.effect);
    this.chosen = null;
    const first = Math.min(0, ...processes.filter((one) => one.calls > 0).map((one) => one.start[0]));
    const judged = Number(BigInt(job.judged_ns) - processes[0].origin);
    const last = processes.reduce((most, one) => one.calls > 0 ? Math.max(most, one.end[one.calls - 1], ...[...one.pendings].map((i) => one.end[i])) : most, Math.max(judged, 1));
    this.view = new TimelineView(processes.length, first, last);
    this.focus = focusOf(job, processes, first, last);
    const row_of = new Map(processes.map((process, row) => [process.rank, row]));
    this.missing = missingOf(job, processes).map((one) => ({...one, row: row_of.get(one.rank)})).filter((one) => one.row !== undefined);
    this.deaths = this.deathsOf(row_of);
    this.build();
    this.bind();
    this.showFocus();
  }

  build() {
    const button = (text, label, act) => el("button", {type: "button", "aria-label": label, title: label, onclick: () => { act(); this.changed(); }}, text);
    this.canvas = el("canvas", {tabindex: "0", role: "application", "aria-label": this.describe(), "aria-describedby": "timeline-keys"});
    this.hint = el("div", {class: "hint", hidden: true});
    this.details = el("div", {class: "details", "aria-live": "polite"});
    section("timeline").append(
      el("p", {class: "lead"}, this.describe()),
      el("div", {class: "tools", role: "toolbar", "aria-label": "Timeline"},
        this.focus.fault === null ? null : button(capital(this.focus.name), `Show the ${this.focus.name}`, () => this.showFocus()),
        button("Everything", "Show the whole job", () => this.showAll()),
        button("+", "Zoom in", () => this.view.zoom(0.5)), button("\u2212", "Zoom out", () => this.view.zoom(2)),
        button("\u25c0", "Earlier", () => this.view.pan(-0.3)), button("\u25b6", "Later", () => this.view.pan(0.3)),
        this.processes.length > 8 ? [button("fewer ranks", "Show fewer ranks", () => this.view.zoomRows(0.5)), button("more ranks", "Show more ranks", () => this.view.zoomRows(2))] : null),
      legend(),
      el("div", {class: "canvas"}, this.canvas, this.hint),
      el("p", {class: "note", id: "timeline-keys"}, KEYS),
      this.details,
      el("details", {}, el("summary", {}, "Where each rank is, as a table"), whereabouts(this.job, this.processes)));
    this.painter = new Painter(this.canvas, new Coarse(this.processes, this.view));
  }

  describe() {
    const count = this.processes.reduce((sum, one) => sum + one.calls, 0);
    const text = `${plural(count, "recorded call")} of ${plural(this.processes.length, "rank")}`;
    if (this.missing.length === 0) return `${text}.`;
    return `${text}. ${capital(ranksText(this.missing.map((one) => one.rank)))} ${this.missing[0].text}.`;
  }

  bind() {
    const zoom = d3.zoom().scaleExtent([1e-9, 1e9]);
    let before = d3.zoomIdentity;
    // D3 tells of gestures; what is shown follows from how each differs from the one before it.
    zoom.on("zoom", (first) => {
      const event = d3.event || first, now = event.transform, source = event.sourceEvent;
      if (!source) return;
      const [x, y] = this.pointOf(source), factor = before.k / now.k;
      if (factor !== 1 && source.shiftKey) this.view.zoomRows(factor, y);
      else if (factor !== 1) this.view.zoom(factor, x);
      else {
        this.view.pan((before.x - now.x) / this.painter.width);
        this.view.panRows((before.y - now.y) / this.painter.height);
      }
      before = now;
      this.changed();
    });
    d3.select(this.canvas).call(zoom).on("dblclick.zoom", null);
    this.canvas.addEventListener("click", (event) => this.choose(this.callAt(event)));
    this.canvas.addEventListener("mousemove", (event) => this.showHint(event));
    this.canvas.addEventListener("mouseleave", () => { this.hint.hidden = true; });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.changed()).observe(this.canvas.parentElement);
  }

  // Parts of the picture, from 0 to 1.
  pointOf(event) {
    const box = this.canvas.getBoundingClientRect(), at = event.touches && event.touches[0] || event;
    return [(at.clientX - box.left - GUTTER) / this.painter.width, (at.clientY - box.top - HEAD) / this.painter.height];
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowLeft: () => this.view.pan(-0.15), ArrowRight: () => this.view.pan(0.15),
      ArrowUp: () => this.view.panRows(-0.15), ArrowDown: () => this.view.panRows(0.15),
      "+": () => this.view.zoom(0.6), "=": () => this.view.zoom(0.6), "-": () => this.view.zoom(1 / 0.6),
      "[": () => this.view.zoomRows(0.6), "]": () => this.view.zoomRows(1 / 0.6),
      "0": () => this.showAll(), Home: () => this.showAll(), f: () => this.showFocus(), Enter: () => this.choose(this.nearestMiddle()),
      n: () => this.step(1), p: () => this.step(-1), j: () => this.stepRank(1), k: () => this.stepRank(-1), Escape: () => this.choose(null),
    };
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act) return;
    event.preventDefault();
    act();
    this.changed();
  }

  showFocus() {
    this.view.show(this.focus.from, this.focus.to);
    const rows = this.processes.flatMap((process, row) => this.culprits.has(process.rank) ? [row] : []);
    const fits = Math.floor((MOST_HEIGHT - HEAD) / ROW), first = Math.min(...rows), end = Math.max(...rows) + 1;
    if (rows.length === 0 || this.processes.length <= fits || end - first > fits) this.view.showRows(0, this.processes.length);
    else this.view.showRows((first + end - fits) / 2, (first + end + fits) / 2);
  }
  showAll() {
    this.view.show(this.view.first, this.view.last);
    this.view.showRows(0, this.processes.length);
  }

  // Puts off drawing to the next frame.
  changed() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => {
      this.asked = false;
      this.draw();
    });
  }

  draw() {
    const height = Math.min(MOST_HEIGHT, HEAD + Math.max(60, this.processes.length * ROW));
    this.painter.fit(height, GUTTER, HEAD);
    const colours = coloursOf(document.documentElement), overlay = new Overlay(this.painter, this.view, colours);
    this.painter.paint(this.processes, this.view, colours.pixels);
    overlay.begin();
    overlay.pending(this.processes);
    if (this.focus.fault !== null) overlay.line(this.focus.fault, colours.culprit);
    for (const one of this.missing) overlay.missing(one.row, one.from, one.to, one.text);
    for (const one of this.deaths) overlay.death(one.row, one.at, one.culprit ? colours.culprit : colours.soft);
    if (this.chosen) overlay.chosen(this.members, this.rows);
    overlay.end();
    this.drawLabels(overlay, colours);
  }

  // At the end of a job that ran to it all processes are gone.
  deathsOf(row_of) {
    const gone = this.ended_well ? [] : this.job.processes.filter((one) => one.gone);
    return gone.flatMap(({ranks, last_sign_ns}) => ranks.filter((rank) => row_of.has(rank)).map((rank) => ({
      row: row_of.get(rank), at: Number(BigInt(last_sign_ns) - this.processes[0].origin), culprit: this.culprits.has(rank)})));
  }

  drawLabels(overlay, colours) {
    const {painter, view} = this, pen = painter.context, of_row = overlay.rowHeight();
    pen.save();
    pen.scale(painter.ratio, painter.ratio);
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "right";
    const each = Math.max(1, Math.ceil(16 / of_row));
    for (let row = Math.ceil(view.top / each) * each; row < view.bottom; row += each) this.label(pen, overlay, row, colours.soft, "");
    this.processes.forEach((process, row) => {
      if (this.culprits.has(process.rank) && overlay.isVisible(row)) this.label(pen, overlay, row, colours.culprit, "bold ");
    });
    const axis = d3.scaleLinear().domain([view.from / 1e9, view.to / 1e9]).range([GUTTER, GUTTER + painter.width]);
    pen.font = "12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.fillStyle = colours.soft;
    const zero = (this.focus.fault ?? view.first) / 1e9, span = (view.to - view.from) / 1e9;
    const ticks = d3.scaleLinear().domain([view.from / 1e9 - zero, view.to / 1e9 - zero]).ticks(Math.max(2, painter.width / 130));
    for (const tick of ticks) {
      const x = axis(tick + zero);
      if (x < GUTTER + 20 || x > GUTTER + painter.width - 24) continue;
      pen.fillText(Math.abs(tick) < span * 1e-9 ? (this.focus.fault === null ? "0" : this.focus.name) : (tick > 0 ? "+" : "\u2212") + seconds(Math.abs(tick)), x, 14);
      pen.fillRect(Math.round(x), HEAD - 6, 1, 5);
    }
    pen.restore();
  }

  label(pen, overlay, row, colour, weight) {
    const y = overlay.y(row + 0.5);
    if (y < HEAD || y > HEAD + this.painter.height) return;
    pen.font = `${weight}12px system-ui, sans-serif`;
    pen.fillStyle = colour;
    const text = `${weight ? "\u25b6 " : ""}rank ${this.processes[row].rank}`;
    if (weight) {
      pen.save();
      pen.fillStyle = coloursOf(document.documentElement).paper;
      pen.fillRect(0, y - 8, GUTTER - 6, 16);
      pen.restore();
    }
    pen.fillText(text, GUTTER - 8, y + 4);
  }

  // The call under the mouse, or the nearest one in a few pixels; null.
  callAt(event) {
    const [x, y] = this.pointOf(event), {view} = this, row = Math.floor(view.top + y * (view.bottom - view.top));
    if (x < 0 || y < 0 || row >= this.processes.length) return null;
    return this.nearest(row, view.from + x * (view.to - view.from), 6 / this.painter.width * (view.to - view.from));
  }

  nearest(row, time, reach) {
    const process = this.processes[row];
    let best = null, distance = reach;
    const consider = (i) => {
      const off = Math.max(process.start[i] - time, time - process.end[i], 0);
      if (off <= distance) [best, distance] = [{process, i}, off];
    };
    process.pendings.forEach(consider);
    for (let i = process.from(time - reach - process.longest); i < process.calls && process.start[i] <= time + reach; ++i)
      if (!process.pendings.has(i)) consider(i);
    return best;
  }

  nearestMiddle() {
    const {view} = this, culprit = this.processes.findIndex((one) => this.culprits.has(one.rank));
    const middle = Math.floor((view.top + view.bottom) / 2), row = culprit >= view.top && culprit < view.bottom ? culprit : middle;
    return this.nearest(row, (view.from + view.to) / 2, view.to - view.from);
  }

  step(by) {
    if (!this.chosen) return this.choose(this.nearestMiddle());
    const {process, i} = this.chosen;
    if (i + by >= 0 && i + by < process.calls) this.choose({process, i: i + by}, true);
  }

  stepRank(by) {
    if (!this.chosen) return this.choose(this.nearestMiddle());
    const {process, i} = this.chosen, row = this.rows.get(process) + by;
    if (row < 0 || row >= this.processes.length) return;
    const other = this.members.find((one) => one.process === this.processes[row]);
    this.choose(other || this.nearest(row, process.start[i], Infinity), true);
  }

  choose(call, bring = false) {
    this.chosen = call;
    this.members = call ? membersOf(this.processes, call.process, call.i) : [];
    if (call && bring) this.bring(call);
    this.details.replaceChildren(...(call ? [callDetails(this.job, call, this.members, (one) => this.choose(one, true))] : []));
    this.changed();
  }

  // Into the picture.
  bring({process, i}) {
    const {view} = this, row = this.rows.get(process), span = view.to - view.from, rows = view.bottom - view.top;
    if (process.start[i] < view.from || process.start[i] > view.to) view.show(process.start[i] - span / 2, process.start[i] + span / 2);
    if (row < view.top || row + 1 > view.bottom) view.showRows(row - rows / 2, row + rows / 2);
  }

  showHint(event) {
    const call = this.callAt(event);
    this.hint.hidden = !call;
    this.canvas.style.cursor = call ? "pointer" : "grab";
    if (!call) return;
    const row = call.process.row(call.i), box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left;
    this.hint.textContent = `rank ${call.process.rank}: ${callText(row)}${row.position === null ? "" : ` #${row.position}`}, ${row.pending ? `for ${seconds(row.duration_s)}` : stateText(row.state)}`;
    this.hint.style.left = `${Math.min(x + 14, box.width - 280)}px`;
    this.hint.style.top = `${event.clientY - box.top + 16}px`;
  }
}

function legend() {
  const item = (kind, text) => el("li", {}, el("span", {class: `mark ${kind}`}), text);
  return el("ul", {class: "legend", "aria-label": "Legend"}, item("collective", "collective"), item("message", "send or receive"),
    item("other", "other call"), item("pending", "has not ended"), item("missing", "not called"), item("dead", "\u2715 process gone"));
}
