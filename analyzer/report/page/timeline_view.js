// What part of the job the timeline shows: times in nanoseconds since the origin, rows by their order. It never leaves
// the job.

const SHORTEST_NS = 200, FEWEST_ROWS = 3;

class TimelineView {
  constructor(rows, first, last) {
    this.rows = rows;
    this.first = first;
    this.last = Math.max(last, first + 1000);
    this.show(first, last);
    this.showRows(0, rows);
  }
  show(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST_NS), this.last - this.first);
    this.from = Math.min(Math.max(from, this.first), this.last - span);
    this.to = this.from + span;
  }
  showRows(from, to) {
    const span = Math.min(Math.max(to - from, Math.min(FEWEST_ROWS, this.rows)), this.rows);
    this.top = Math.min(Math.max(from, 0), this.rows - span);
    this.bottom = this.top + span;
  }
  // `factor` below 1 shows less; `part` of the picture stays where it is.
  zoom(factor, part = 0.5) {
    const fixed = this.from + part * (this.to - this.from), span = (this.to - this.from) * factor;
    this.show(fixed - part * span, fixed + (1 - part) * span);
  }
  zoomRows(factor, part = 0.5) {
    const fixed = this.top + part * (this.bottom - this.top), span = (this.bottom - this.top) * factor;
    this.showRows(fixed - part * span, fixed + (1 - part) * span);
  }
  pan(part) {
    const by = part * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }
  panRows(part) {
    const by = part * (this.bottom - this.top);
    this.showRows(this.top + by, this.bottom + by);
  }
}
