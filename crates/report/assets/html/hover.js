// What a point is: the one under the mouse, or the one that the keyboard has reached.
const REACH = 8; // pixels
const MOST_LOOKED_AT = 400000;
let current = null;

/** The point nearest to a place in the box (CSS pixels), or null. */
function nearest(box, x, y) {
    if (!selected) return null;
    const ticks = (view.x1 - view.x0) / box.width, rows = (view.y1 - view.y0) / box.height;
    const time = view.x0 + x * ticks, row = view.y0 + y * rows;
    let best = null, least = REACH * REACH;
    for (const part of [selected.ins, selected.outs]) {
        const from = lowerBound(part.time, Math.floor(time - REACH * ticks));
        const to = lowerBound(part.time, Math.ceil(time + REACH * ticks) + 1, from);
        const stride = Math.ceil((to - from) / MOST_LOOKED_AT);
        for (let k = from; k < to; k += stride) {
            const dx = (part.time[k] - time) / ticks, dy = (part.row[k] - row) / rows;
            const distance = dx * dx + dy * dy;
            if (distance < least) {
                least = distance;
                best = part.index[k];
            }
        }
    }
    return best;
}

const frameText = frame => frame.place ? `${frame.name} (${frame.place})` : frame.name;

/** A call path, innermost function first, as lines. */
function pathLines(number) {
    if (!model.has_paths) return [];
    if (number === NO_PATH) return ['call path unknown'];
    if (number === OTHER_PATH) return ['(one of the rarer call paths)'];
    const frames = model.paths[number].frames.slice().reverse().map(frame => frameText(model.frames[frame]));
    return frames.length > 10 ? [...frames.slice(0, 10), `and ${frames.length - 10} more`] : frames;
}

/** Everything known of a point: a title, facts, call path. */
function describe(i) {
    const kind = points.what[i] % KINDS;
    const band = model.bands[(points.what[i] - kind) / KINDS];
    const { page, address } = addressOf(band, points.row[i]);
    const facts = [
        `${['swap-in', 'swap-cache hit', 'eviction'][kind]} at ${(points.time[i] * model.tick_ns / 1e9).toFixed(6)} s`,
        band.shift ? `near address 0x${address.toString(16)}`
            : `address 0x${address.toString(16)}, ${bytes(page * model.page_bytes)} into it`,
    ];
    const latency = latencyOf(points.latency[i]);
    if (kind === SWAP_IN && latency !== null) facts.push(`took ${duration(latency)}`);
    if (kind === SWAP_IN && latency === null && model.has_latency) facts.push('how long it took is not known');
    const process = model.processes[points.space[i]];
    if (process && process.pid !== null) facts.push(`process ${process.pid} (${process.command ?? '?'})`);
    return { title: band.label, facts, path: kind === EVICTION ? [] : pathLines(points.path[i]) };
}

function line(tag, text, className) {
    const made = document.createElement(tag);
    made.textContent = text;
    if (className) made.className = className;
    return made;
}

function showTip(box, i) {
    current = i;
    const tip = element('tip');
    if (i === null) {
        tip.hidden = true;
        return;
    }
    const { title, facts, path } = describe(i);
    tip.replaceChildren(
        line('strong', title), ...facts.map(fact => line('span', fact)), ...path.map(frame => line('span', frame, 'path')));
    tip.hidden = false;
    const x = box.left + (points.time[i] - view.x0) / (view.x1 - view.x0) * box.width;
    const y = (points.row[i] - view.y0) / (view.y1 - view.y0) * box.height;
    const { offsetWidth: width, offsetHeight: height } = tip;
    const whole = box.left + box.width;
    tip.style.left = `${Math.max(0, x + 14 + width > whole ? x - 14 - width : x + 14)}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 14, box.height + BOTTOM - height))}px`;
}

/** The event after (or before) the current one, in the view. */
function step(forward) {
    if (!selected) return null;
    const visible = i => points.row[i] >= view.y0 && points.row[i] < view.y1;
    const next = [selected.ins, selected.outs].map(part => {
        let [from, to] = span(part);
        if (current === null) {
            for (let k = forward ? from : to - 1; k >= from && k < to; k += forward ? 1 : -1) if (visible(part.index[k])) return part.index[k];
            return null;
        }
        let k = lowerBound(part.index, forward ? current + 1 : current) - (forward ? 0 : 1);
        for (; k >= from && k < to; k += forward ? 1 : -1) if (visible(part.index[k])) return part.index[k];
        return null;
    }).filter(i => i !== null);
    if (next.length === 0) return current;
    return forward ? Math.min(...next) : Math.max(...next);
}
