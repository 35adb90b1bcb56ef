// What stands out on the timeline: calls that have not ended, calls that are missing, deaths, the chosen call. Drawn as
// shapes over the pixels, in points of the element.

function hatch(context, colour, ratio) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(6 * ratio);
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = 1.4 * ratio;
  for (const shift of [-tile.width, 0, tile.width]) {
    pen.beginPath();
    pen.moveTo(shift, tile.height);
    pen.lineTo(shift + tile.width, 0);
    pen.stroke();
  }
  return context.createPattern(tile, "repeat");
}

class Overlay {
  constructor(painter, view, colours) {
    Object.assign(this, {painter, view, colours, pen: painter.context});
  }
  x(time) {
    return this.painter.gutter + (time - this.view.from) / (this.view.to - this.view.from) * this.painter.width;
  }
  y(row) {
    return this.painter.head + (row - this.view.top) / (this.view.bottom - this.view.top) * this.painter.height;
  }
  rowHeight() {
    return this.painter.height / (this.view.bottom - this.view.top);
  }
  isVisible(row) {
    return row + 1 > this.view.top && row < this.view.bottom;
  }

  begin() {
    const {pen, painter} = this;
    pen.save();
    pen.scale(painter.ratio, painter.ratio);
    pen.beginPath();
    pen.rect(painter.gutter, painter.head, painter.width, painter.height);
    pen.clip();
    pen.font = "12px system-ui, sans-serif";
  }
  end() {
    this.pen.restore();
  }

  // One bar a band, from the first of them on.
  pending(processes) {
    const {pen, painter, colours} = this;
    pen.fillStyle = hatch(pen, colours.pending, 1);
    pen.strokeStyle = colours.pending;
    for (const band of painter.bands) {
      let from = Infinity, to = -Infinity;
      for (let row = band.first; row < band.end; ++row)
        for (const i of processes[row].pendings) {
          from = Math.min(from, processes[row].start[i]);
          to = Math.max(to, processes[row].end[i]);
        }
      if (to < this.view.from || from > this.view.to) continue;
      const left = this.x(from), width = Math.max(2, this.x(to) - left);
      const height = band.height / painter.ratio, gap = height > 4 ? height * 0.12 : 0, top = painter.head + band.y / painter.ratio + gap;
      pen.fillRect(left, top, width, height - 2 * gap);
      if (height > 8) pen.strokeRect(left + 0.5, top + 0.5, width - 1, height - 2 * gap - 1);
    }
  }

  // A rank without the call that the others wait in.
  missing(row, from, to, text) {
    if (!this.isVisible(row)) return;
    const {pen, colours} = this, height = Math.max(this.rowHeight(), 7), left = this.x(from), right = this.x(to);
    const top = this.y(row + 0.5) - height / 2;
    pen.strokeStyle = colours.culprit;
    pen.lineWidth = 2;
    pen.setLineDash([6, 4]);
    pen.fillStyle = colours.paper;
    pen.fillRect(left, top + 1, right - left, height - 2);
    pen.strokeRect(left + 1, top + 1, Math.max(4, right - left - 2), height - 2);
    pen.setLineDash([]);
    if (height < 11) return;
    pen.fillStyle = colours.culprit;
    pen.fillText(text, Math.max(left, this.painter.gutter) + 8, top + height / 2 + 4);
    pen.lineWidth = 1;
  }

  death(row, at, colour) {
    if (!this.isVisible(row)) return;
    const {pen} = this, x = this.x(at), y = this.y(row + 0.5), r = Math.min(6, Math.max(3, this.rowHeight() / 3));
    pen.strokeStyle = colour;
    pen.lineWidth = 2.5;
    pen.beginPath();
    pen.moveTo(x - r, y - r);
    pen.lineTo(x + r, y + r);
    pen.moveTo(x + r, y - r);
    pen.lineTo(x - r, y + r);
    pen.stroke();
    pen.lineWidth = 1;
  }

  line(at, colour) {
    if (at < this.view.from || at > this.view.to) return;
    const {pen, painter} = this, x = Math.round(this.x(at)) + 0.5;
    pen.strokeStyle = colour;
    pen.setLineDash([2, 3]);
    pen.beginPath();
    pen.moveTo(x, painter.head);
    pen.lineTo(x, painter.head + painter.height);
    pen.stroke();
    pen.setLineDash([]);
  }

  // The members of the chosen call, joined by a line in order of ranks.
  chosen(members, rows) {
    const {pen, colours} = this, height = Math.max(4, this.rowHeight());
    pen.strokeStyle = colours.chosen;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const {process, i} of members) pen.lineTo(this.x(process.start[i]), this.y(rows.get(process) + 0.5));
    pen.globalAlpha = 0.6;
    pen.stroke();
    pen.globalAlpha = 1;
    pen.lineWidth = 2;
    for (const {process, i} of members) {
      const row = rows.get(process);
      if (!this.isVisible(row)) continue;
      const left = this.x(process.start[i]);
      pen.strokeRect(left - 1, this.y(row) + 1, Math.max(3, this.x(process.end[i]) - left + 2), height - 2);
    }
    pen.lineWidth = 1;
  }
}
