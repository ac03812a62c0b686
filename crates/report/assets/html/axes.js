// Behind the points: bands with their names, and the axes.
const BOTTOM = 34;

/** Left of the points: room for names, if there is any. */
const gutter = width => width < 560 ? 0 : Math.min(250, Math.max(170, Math.round(width * 0.22)));

function drawAxes(canvas, box) {
    const context = canvas.getContext('2d');
    const style = getComputedStyle(document.documentElement);
    const colour = name => style.getPropertyValue(name);
    context.setTransform(box.ratio, 0, 0, box.ratio, 0, 0);
    context.clearRect(0, 0, box.left + box.width, box.height + BOTTOM);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    const y = row => (row - view.y0) / (view.y1 - view.y0) * box.height;
    let free = 0; // names do not overlap
    model.bands.forEach((band, number) => {
        const top = Math.max(0, y(band.start)), bottom = Math.min(box.height, y(band.start + band.height));
        if (bottom <= 0 || top >= box.height) return;
        context.fillStyle = colour('--band');
        context.fillRect(box.left, top, box.width, Math.max(1, bottom - top));
        const middle = Math.max(free + 7, Math.min(box.height - 7, bottom - top > 44 ? top + 9 : (top + bottom) / 2));
        if (middle > box.height - 6 || middle > bottom + 9) return;
        context.fillStyle = colour(filter.band === null || filter.band === number ? '--text' : '--soft');
        nameOf(context, band, box, middle);
        free = middle + 7;
        if (bottom - top > 44) free = Math.max(free, drawOffsets(context, band, box, y, middle + 12, colour));
    });
    drawTimes(context, box, colour);
}

function nameOf(context, band, box, middle) {
    if (box.left === 0) return; // narrow: drawn over the points, where it can be read
    context.textAlign = 'right';
    context.fillText(shortened(context, band.label, box.left - 12), box.left - 6, middle);
}

/** Narrow screens have no room left of the points: names stand on them. */
function drawNamesOver(context, box) {
    const style = getComputedStyle(document.documentElement);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'top';
    context.textAlign = 'left';
    let free = 0;
    for (const band of model.bands) {
        const scale = box.height / (view.y1 - view.y0);
        const top = Math.max(0, (band.start - view.y0) * scale), bottom = (band.start + band.height - view.y0) * scale;
        if (bottom <= 4 || top > box.height - 13 || top < free) continue;
        const text = shortened(context, band.label, box.width - 8);
        context.globalAlpha = 0.8;
        context.fillStyle = style.getPropertyValue('--back');
        context.fillRect(2, top + 1, context.measureText(text).width + 4, 13);
        context.globalAlpha = 1;
        context.fillStyle = style.getPropertyValue('--text');
        context.fillText(text, 4, top + 2);
        free = top + 14;
    }
}

/** A name that fits; the end tells the line, so the middle goes. */
function shortened(context, text, room) {
    if (context.measureText(text).width <= room) return text;
    let kept = text.length;
    const cut = () => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
    while (kept > 4 && context.measureText(cut()).width > room) kept = Math.floor(kept * 0.9);
    return cut();
}

/** How far into the object, what is cropped left out. */
function drawOffsets(context, band, box, y, from, colour) {
    const bytesPerRow = model.page_bytes * 2 ** band.shift / band.scale;
    const top = Math.max(view.y0, band.start), bottom = Math.min(view.y1, band.start + band.height);
    const pixels = y(bottom) - y(top);
    const step = Math.max(model.page_bytes, niceBytes((bottom - top) * bytesPerRow, pixels / 40));
    context.strokeStyle = colour('--line');
    context.textAlign = 'right';
    let used = from;
    const first = Math.max(1, Math.ceil((top - band.start) * bytesPerRow / step));
    for (let at = first * step; at < (bottom - band.start) * bytesPerRow; at += step) {
        const line = y(band.start + at / bytesPerRow);
        context.beginPath();
        context.moveTo(box.left, line);
        context.lineTo(box.left + box.width, line);
        context.stroke();
        if (box.left > 0 && line > used && line < box.height - 6) {
            context.fillStyle = colour('--soft');
            context.fillText(`+ ${bytes(at)}`, box.left - 6, line);
            used = line + 12;
        }
    }
    return used;
}

function drawTimes(context, box, colour) {
    const toSeconds = model.tick_ns / 1e9;
    const [from, to] = [view.x0 * toSeconds, view.x1 * toSeconds];
    const step = niceStep(to - from, box.width / 110);
    context.fillStyle = colour('--soft');
    context.strokeStyle = colour('--line');
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
        const x = box.left + (at - from) / (to - from) * box.width;
        context.beginPath();
        context.moveTo(x, 0);
        context.lineTo(x, box.height + 4);
        context.stroke();
        if (x < box.left + box.width - 40) context.fillText(seconds(at, step), Math.max(x, 14), box.height + 6);
    }
    context.textAlign = 'right';
    context.fillText('time, s', box.left + box.width - 4, box.height + 19);
    if (box.left > 0) {
        context.fillText('address within the object', box.left - 6, box.height + 19);
    }
}
