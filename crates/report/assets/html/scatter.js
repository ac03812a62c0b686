// The picture of swap-ins and evictions: three canvases, one above the other, and what mouse and keys do to it.
const back = element('map-back'), dots = element('map-points'), front = element('map-front');
/** Where the points are, in CSS pixels from the left upper corner; `ratio`: device pixels to one of these. */
const box = { left: 0, width: 1, height: 1, ratio: 1 };
const buffers = { image: null, ins: null, outs: null };
/** With fewer points in the time shown, all are drawn also while the picture moves. */
const FEW = 500000;
let movingUntil = 0;
let overviewCells = null;

function resize() {
    const map = element('map');
    box.ratio = Math.min(2, window.devicePixelRatio || 1);
    box.left = gutter(map.clientWidth);
    box.width = Math.max(50, map.clientWidth - box.left);
    box.height = Math.max(50, map.clientHeight - BOTTOM);
    for (const canvas of [back, front]) {
        canvas.width = Math.round(map.clientWidth * box.ratio);
        canvas.height = Math.round(map.clientHeight * box.ratio);
    }
    dots.width = Math.round(box.width * box.ratio);
    dots.height = Math.round(box.height * box.ratio);
    dots.style.left = `${box.left}px`;
    dots.style.width = `${box.width}px`;
    dots.style.height = `${box.height}px`;
    const cells = dots.width * dots.height;
    Object.assign(buffers, {
        image: new ImageData(dots.width, dots.height), ins: new Uint32Array(cells), outs: new Uint32Array(cells),
    });
}

function drawPoints() {
    const { image, ins, outs } = buffers;
    if (!selected) {
        if (!overviewCells) return;
        paintOverview(image, overviewCells);
        element('map').dataset.state = 'overview';
    } else {
        const parts = [selected.ins, selected.outs];
        const number = parts.map(span).reduce((sum, [from, to]) => sum + to - from, 0);
        const moving = performance.now() < movingUntil;
        const sampled = moving && number > FEW;
        const [first, second] = sampled ? parts.map(part => part.sample) : parts;
        ins.fill(0);
        outs.fill(0);
        const inside = bin(first, ins, image.width, image.height) + bin(second, outs, image.width, image.height);
        paint(image, ins, outs, dotSize(inside, box.ratio));
        element('map').dataset.state = moving ? 'moving' : 'complete';
        tell(inside, sampled);
    }
    dots.getContext('2d').putImageData(image, 0, 0);
}

function tell(inside, sampled) {
    const toSeconds = model.tick_ns / 1e9;
    const step = (view.x1 - view.x0) * toSeconds / 1000;
    const number = sampled ? `about ${count(inside)}` : count(inside);
    const thinned = model.every > 1.001 ? ` (one in ${model.every.toFixed(1)} is shown)` : '';
    element('map-status').textContent = `${number} of ${count(model.points)} events${thinned}, `
        + `${seconds(view.x0 * toSeconds, step)} to ${seconds(view.x1 * toSeconds, step)} s`;
    Object.assign(element('map').dataset, { inside, x0: view.x0, x1: view.x1, y0: view.y0, y1: view.y1 });
}

function drawFront(rectangle) {
    const context = front.getContext('2d');
    context.setTransform(box.ratio, 0, 0, box.ratio, 0, 0);
    context.clearRect(0, 0, front.width, front.height);
    if (box.left === 0) drawNamesOver(context, box);
    const accent = getComputedStyle(document.documentElement).getPropertyValue('--accent');
    context.strokeStyle = accent;
    if (current !== null && points) {
        const x = box.left + (points.time[current] - view.x0) / (view.x1 - view.x0) * box.width;
        const y = (points.row[current] - view.y0) / (view.y1 - view.y0) * box.height;
        context.lineWidth = 2;
        context.strokeRect(x - 5, y - 5, 10, 10);
    }
    if (rectangle) {
        const { x, y, width, height } = rectangle;
        context.fillStyle = accent;
        context.globalAlpha = 0.2;
        context.fillRect(x + box.left, y, width, height);
        context.globalAlpha = 1;
        context.lineWidth = 1;
        context.strokeRect(x + box.left, y, width, height);
    }
}

function drawMap() {
    drawAxes(back, box);
    drawPoints();
    drawFront();
}

/** All in one canvas that is kept as pixels: browsers print others as they were drawn, layer by layer, or not at all. */
function drawForPrint() {
    const print = element('map-print');
    print.width = back.width;
    print.height = back.height;
    const context = print.getContext('2d', { willReadFrequently: true });
    context.drawImage(back, 0, 0);
    context.drawImage(dots, Math.round(box.left * box.ratio), 0);
    context.drawImage(front, 0, 0);
}

let frame = 0, settle = 0;
/** Draws with the next frame; while `moving`, perhaps in part, and in whole a moment after. */
function redraw(moving = false) {
    if (moving) {
        movingUntil = performance.now() + 150;
        clearTimeout(settle);
        settle = setTimeout(() => { redraw(); announce('settled'); }, 160);
    }
    if (!frame) frame = requestAnimationFrame(() => { frame = 0; drawMap(); });
}

/** Where an event of the mouse is, in the box. */
function within(event) {
    const { left, top } = front.getBoundingClientRect();
    return { x: event.clientX - left - box.left, y: event.clientY - top };
}

let drag = null;
front.addEventListener('pointerdown', event => {
    if (event.button > 1) return;
    drag = { from: within(event), moved: event.shiftKey || event.button === 1 || event.pointerType === 'touch' };
    drag.last = drag.from;
    front.setPointerCapture(event.pointerId);
});
front.addEventListener('pointermove', event => {
    const at = within(event);
    if (!drag) {
        showTip(box, at.x < 0 || at.y > box.height ? null : nearest(box, at.x, at.y));
        drawFront();
        return;
    }
    if (drag.moved) pan((drag.last.x - at.x) / box.width, (drag.last.y - at.y) / box.height);
    drag.last = at;
    if (!drag.moved) drawFront(rectangleOf(drag));
});
front.addEventListener('pointerup', () => {
    const done = drag;
    drag = null;
    if (!done || done.moved) return;
    const { x, y, width, height } = rectangleOf(done);
    if (width > 4 || height > 4) zoomTo(x, y, width, height); else drawFront();
});
front.addEventListener('pointercancel', () => { drag = null; drawFront(); });
front.addEventListener('pointerleave', () => { if (!drag) { showTip(box, null); drawFront(); } });
front.addEventListener('dblclick', resetView);
front.addEventListener('wheel', event => {
    const factor = Math.exp(Math.sign(event.deltaY || event.deltaX) * 0.18);
    const full = event.shiftKey ? view.y1 - view.y0 >= everything.y1 : view.x1 - view.x0 >= everything.x1;
    if (factor > 1 && full) return; // nothing to do here: the page moves
    event.preventDefault();
    const at = within(event);
    const x = Math.min(1, Math.max(0, at.x / box.width)), y = Math.min(1, Math.max(0, at.y / box.height));
    if (event.shiftKey) zoom(1, factor, x, y); else zoom(factor, 1, x, y);
}, { passive: false });

/** From where the mouse went down to where it is; as high as the picture if it hardly went up or down, or as wide. */
function rectangleOf({ from, last }) {
    const limit = (value, most) => Math.min(most, Math.max(0, value));
    let [x0, x1] = [limit(from.x, box.width), limit(last.x, box.width)].sort((a, b) => a - b);
    let [y0, y1] = [limit(from.y, box.height), limit(last.y, box.height)].sort((a, b) => a - b);
    if (x1 - x0 > 4 && y1 - y0 < 12) [y0, y1] = [0, box.height];
    if (y1 - y0 > 4 && x1 - x0 < 12) [x0, x1] = [0, box.width];
    return { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
}

function zoomTo(x, y, width, height) {
    const ticks = (view.x1 - view.x0) / box.width, rows = (view.y1 - view.y0) / box.height;
    setView({
        x0: view.x0 + x * ticks, x1: view.x0 + (x + width) * ticks,
        y0: view.y0 + y * rows, y1: view.y0 + (y + height) * rows,
    });
}

const KEYS = {
    ArrowLeft: () => pan(-0.1, 0), ArrowRight: () => pan(0.1, 0), ArrowUp: () => pan(0, -0.1), ArrowDown: () => pan(0, 0.1),
    '+': () => zoom(0.7, 1), '=': () => zoom(0.7, 1), '-': () => zoom(1 / 0.7, 1), '*': () => zoom(1, 0.7), _: () => zoom(1, 1 / 0.7),
    Home: () => pan(-Infinity, 0), End: () => pan(Infinity, 0), 0: resetView,
    n: () => { showTip(box, step(true)); drawFront(); }, p: () => { showTip(box, step(false)); drawFront(); },
    Escape: () => { showTip(box, null); resetFilter(); resetView(); },
};
front.addEventListener('keydown', event => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    // With Shift, + and - are for the address.
    const key = event.shiftKey && event.key === '+' && event.code !== 'Equal' ? '*' : event.key;
    const action = KEYS[key.length === 1 ? key.toLowerCase() : key];
    if (!action) return;
    event.preventDefault();
    action();
});
