// From points to pixels: how many fall on each, then a colour for that.
const LEVELS = 16;
let palette = null;

function rgb(name) {
    const [r, g, b] = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1).match(/../g);
    return [r, g, b].map(hex => parseInt(hex, 16));
}

/** Colours by density and by the share of swap-ins, as pixels (red in the lowest byte: processors are little-endian). */
function makePalette() {
    const ins = rgb('--swap-in'), outs = rgb('--eviction');
    palette = new Uint32Array(LEVELS * LEVELS);
    for (let density = 0; density < LEVELS; density++) {
        const alpha = Math.round(255 * (0.5 + 0.5 * density / (LEVELS - 1)));
        for (let share = 0; share < LEVELS; share++) {
            const mixed = ins.map((value, i) => Math.round((value * share + outs[i] * (LEVELS - 1 - share)) / (LEVELS - 1)));
            palette[density * LEVELS + share] = (alpha << 24 | mixed[2] << 16 | mixed[1] << 8 | mixed[0]) >>> 0;
        }
    }
}

/** Counts points by pixel, each for `weight` of them; returns how many are in view. */
function bin({ time, row, weight = 1 }, counts, width, height) {
    const [from, to] = span({ time });
    const scaleX = width / (view.x1 - view.x0), scaleY = height / (view.y1 - view.y0);
    const { x0, y0 } = view;
    const lowest = Math.ceil(view.y0), highest = Math.ceil(view.y1);
    const lastColumn = width - 1;
    let inside = 0;
    for (let i = from; i < to; i++) {
        const r = row[i];
        if (r < lowest || r >= highest) continue;
        const x = Math.max(0, Math.min(lastColumn, ((time[i] - x0) * scaleX) | 0));
        counts[((r - y0) * scaleY | 0) * width + x] += weight;
        inside++;
    }
    return inside * weight;
}

/** Few points are drawn larger, or nobody would see them: pixels a side. */
function dotSize(inside, ratio) {
    const size = inside < 2e4 ? 4 : inside < 1.5e5 ? 3 : inside < 6e5 ? 2 : 1;
    return Math.max(1, Math.round(size * Math.min(ratio, 2) / (ratio > 1 ? 1.3 : 1)));
}

/** Colours the pixels by the counts of swap-ins and evictions. */
function paint(image, ins, outs, size) {
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(0);
    let most = 1;
    for (let i = 0; i < pixels.length; i++) {
        const sum = ins[i] + outs[i];
        if (sum > most) most = sum;
    }
    const level = Uint8Array.from({ length: Math.min(most, 4096) + 1 }, (_, n) =>
        n < 2 ? 0 : Math.min(LEVELS - 1, Math.round((LEVELS - 1) * Math.log(n) / Math.log(Math.min(most, 4096)))));
    const { width, height } = image;
    for (let at = 0; at < pixels.length; at++) {
        const sum = ins[at] + outs[at];
        if (sum === 0) continue;
        const share = Math.round((LEVELS - 1) * ins[at] / sum);
        const colour = palette[level[Math.min(sum, 4096)] * LEVELS + share];
        if (size === 1) pixels[at] = colour;
        else paintDot(pixels, width, height, at, size, colour);
    }
}

function paintDot(pixels, width, height, at, size, colour) {
    const half = size >> 1;
    const x = at % width, y = (at - x) / width;
    const left = Math.max(0, x - half), right = Math.min(width, x - half + size);
    for (let line = Math.max(0, y - half); line < Math.min(height, y - half + size); line++) {
        pixels.fill(colour, line * width + left, line * width + right);
    }
}

/** The picture as a whole, from the small one in the model. */
function paintOverview(image, cells) {
    const { columns, rows } = model.overview;
    const { width, height } = image;
    const ins = new Uint32Array(width * height), outs = new Uint32Array(width * height);
    for (let y = 0; y < height; y++) {
        const line = Math.floor(y * rows / height) * columns;
        for (let x = 0; x < width; x++) {
            const cell = line + Math.floor(x * columns / width);
            ins[y * width + x] = cells[cell];
            outs[y * width + x] = cells[rows * columns + cell];
        }
    }
    paint(image, ins, outs, 1);
}
