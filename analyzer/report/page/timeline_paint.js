// The timeline as pixels. Ranks that have less than a few pixels share a band; what several calls have in one pixel is
// drawn once, the most telling on top.

const LEAST_BAND = 3;  // pixels
const DRAWN = {other: 1, message: 2, collective: 4, failed: 8};

function bitOf(shape) {
  if (shape.failed) return DRAWN.failed;
  return shape.kind === KIND.message ? DRAWN.message : shape.kind === KIND.collective ? DRAWN.collective : DRAWN.other;
}

// Bands of the visible rows: {first, end} of processes, {y, height} in pixels.
function bandsOf(view, height) {
  const of_row = height / (view.bottom - view.top), each = Math.max(1, Math.ceil(LEAST_BAND / of_row));
  const bands = [];
  for (let first = Math.floor(view.top / each) * each; first < view.bottom; first += each) {
    const end = Math.min(first + each, view.rows);
    const y = Math.round((first - view.top) * of_row), below = Math.round((end - view.top) * of_row);
    bands.push({first, end, y, height: below - y});
  }
  return bands;
}

// Marks in `cover`, one a pixel, what the process does in the view.
function coverOf(process, view, width, cover) {
  const {start, end, shape, shapes} = process, scale = width / (view.to - view.from);
  if (!process.bits) process.bits = shapes.map((one) => one.pending ? 0 : bitOf(one));
  const bits = process.bits;
  for (let i = process.from(view.from - process.longest), n = process.calls; i < n && start[i] < view.to; ++i) {
    const bit = bits[shape[i]];
    if (bit === 0 || process.pendings.has(i)) continue;
    const left = (start[i] - view.from) * scale, right = (end[i] - view.from) * scale;
    if (right < 0) continue;
    const last = Math.min(width - 1, Math.max(right, left + 1.2)) | 0;
    for (let x = left > 0 ? left | 0 : 0; x <= last; ++x) cover[x] |= bit;
  }
}

// What groups of neighbouring ranks do, in coarse pieces of the whole job: for views in which a pixel is longer than a
// piece. A thousand ranks are drawn in a few milliseconds then.
const GROUP = 8, PIECES = 2048;

class Coarse {
  constructor(processes, view) {
    this.job = {from: view.first, to: view.last};
    this.piece = (view.last - view.first) / PIECES;
    this.groups = [];
    for (let first = 0; first + GROUP <= processes.length; first += GROUP) {
      const cover = new Uint8Array(PIECES);
      for (let row = first; row < first + GROUP; ++row) coverOf(processes[row], this.job, PIECES, cover);
      this.groups.push(cover);
    }
  }
  serves(view, width) {
    return (view.to - view.from) / width >= this.piece;
  }
  coverOf(group, view, width, cover) {
    const pieces = this.groups[group], scale = this.piece * width / (view.to - view.from);
    const shift = (this.job.from - view.from) / (view.to - view.from) * width;
    const end = Math.min(PIECES, Math.ceil((view.to - this.job.from) / this.piece));
    for (let i = Math.max(0, Math.floor((view.from - this.job.from) / this.piece)); i < end; ++i) {
      const x = Math.max(0, i * scale + shift) | 0;
      if (x < width) cover[x] |= pieces[i];
    }
  }
}

class Painter {
  constructor(canvas, coarse) {
    this.canvas = canvas;
    this.coarse = coarse;
    this.context = canvas.getContext("2d");
  }

  // Takes the size of the element on the screen. `gutter`: for labels, at the left; `head`: for times, above.
  fit(height, gutter, head) {
    const ratio = window.devicePixelRatio || 1, width = this.canvas.parentElement.clientWidth;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    Object.assign(this, {ratio, gutter, head, width: width - gutter, height: height - head});
  }

  paint(processes, view, colours) {
    const width = Math.round(this.width * this.ratio), height = Math.round(this.height * this.ratio);
    const image = this.context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    const cover = new Uint8Array(width);
    this.bands = bandsOf(view, height);
    for (const band of this.bands) {
      cover.fill(0);
      this.coverBand(processes, band, view, width, cover);
      this.paintBand(band, cover, pixels, width, height, colours);
    }
    this.context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.context.putImageData(image, Math.round(this.gutter * this.ratio), Math.round(this.head * this.ratio));
  }

  coverBand(processes, band, view, width, cover) {
    const coarse = this.coarse.serves(view, width);
    for (let row = band.first; row < band.end;) {
      if (coarse && row % GROUP === 0 && row + GROUP <= band.end) {
        this.coarse.coverOf(row / GROUP, view, width, cover);
        row += GROUP;
      } else coverOf(processes[row++], view, width, cover);
    }
  }

  // Collectives fill the band, messages its lower half, everything else a line in its middle: told without colour.
  paintBand(band, cover, pixels, width, height, colours) {
    const gap = band.height > 4 ? Math.max(1, Math.round(band.height * 0.12)) : 0;
    const top = Math.max(0, band.y + gap), bottom = Math.min(height, band.y + band.height - gap);
    const middle = (band.y + band.height / 2) | 0, thin = band.height > 8 ? 1 : 0;
    for (let y = top; y < bottom; ++y) {
      const shown = DRAWN.failed | DRAWN.collective | (y >= middle ? DRAWN.message : 0) |
        (Math.abs(y - middle) <= thin ? DRAWN.other : 0);
      const row = y * width;
      for (let x = 0; x < width; ++x) {
        const bits = cover[x] & shown;
        if (bits !== 0) pixels[row + x] = bits & DRAWN.failed ? colours.failed : bits & DRAWN.collective ? colours.collective
          : bits & DRAWN.message ? colours.message : colours.other;
      }
    }
  }
}
