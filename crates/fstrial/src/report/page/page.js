/**
 * @file Draws the figures of a report. The page's text is complete without this script: it only fills the
 * `figure.plot` placeholders, from the JSON in `#data`, when they come into view.
 *
 * - Nothing here makes HTML from text: elements are built one by one, and text is set as text. Names of arms, titles
 *   and reasons come from files of strangers.
 * - Every axis is linear to ECharts: `makeAxis` maps values (logarithms, units, percentiles) and makes the ticks, so
 *   that all scales look and behave alike.
 * - A plot is an entry of `PLOTS`: `view` gives what is drawn, `table` the same as rows, for people and for CSV.
 */
'use strict';

(() => {
  // ---------------------------------------------------------------- the data

  const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);
  const isPositive = (value) => isNumber(value) && value > 0;
  const NBSP = '\u00a0';
  const FONT =
    'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", ' +
    'Arial, sans-serif';
  /** Most rows a table shows; the CSV always has all. */
  const MOST_ROWS = 400;
  /** Bands of more arms than this hide each other, so only error bars or lines are drawn. */
  const MOST_BANDS = 5;

  /**
   * Text for a drawing or a sentence: marks that turn the direction of writing or break lines would reach beyond the
   * name they are in. Tables and files have names as they are.
   */
  const plainText = (text) =>
    String(text)
      .replace(/[\u202a-\u202e\u2066-\u2069]/g, '')
      .replace(/\p{Cc}+/gu, ' ');

  const root = JSON.parse(document.getElementById('data').textContent);
  const trials = root.trials || [];
  /** Units as people are shown them, where the data has longer names. */
  const SHOWN_UNITS = new Map([
    ['bytes/s', 'B/s'],
    ['bytes', 'B'],
  ]);
  for (const section of trials.flatMap((trial) => trial.sections)) {
    section.unit = SHOWN_UNITS.get(section.unit) || section.unit;
  }

  /** Number of each arm's name over the whole page: the same name has the same looks in every trial. */
  const styleOfName = new Map();
  for (const trial of trials) {
    for (const name of trial.arms) {
      if (!styleOfName.has(plainText(name))) styleOfName.set(plainText(name), styleOfName.size);
    }
  }
  const numberOfName = (name) => styleOfName.get(plainText(name)) || 0;
  /** Arms that are hidden, one set of indices for each trial. */
  const hiddenArms = trials.map(() => new Set());
  /** The level chosen for all figures of a section, by section. */
  const chosenLevel = new Map();

  // ---------------------------------------------------------------- words and units

  /**
   * @param {number} value
   * @param {number} digits significant digits
   * @returns {string} without exponent
   */
  function significant(value, digits = 3) {
    if (!isNumber(value)) return '–';
    if (value === 0) return '0';
    const magnitude = Math.floor(Math.log10(Math.abs(value)));
    const decimals = Math.min(Math.max(digits - 1 - magnitude, 0), 12);
    return value.toFixed(decimals).replace('-', '−');
  }

  const DECIMAL = [
    [1, ''],
    [1e3, 'k'],
    [1e6, 'M'],
    [1e9, 'G'],
    [1e12, 'T'],
  ];
  const BINARY = [
    [1, ''],
    [1024, 'Ki'],
    [1024 ** 2, 'Mi'],
    [1024 ** 3, 'Gi'],
    [1024 ** 4, 'Ti'],
  ];
  const TIME = [
    [1, 'ns'],
    [1e3, 'µs'],
    [1e6, 'ms'],
    [1e9, 's'],
  ];
  const NANOSECONDS = new Map([
    ['ns', 1],
    ['us', 1e3],
    ['µs', 1e3],
    ['ms', 1e6],
    ['s', 1e9],
  ]);

  /**
   * How numbers of a unit are written.
   * @param {string} unit as in the data
   * @returns {{factor: number, steps: Array, binary: boolean}} `factor` to the unit of the steps
   */
  function quantity(unit) {
    if (NANOSECONDS.has(unit)) return { factor: NANOSECONDS.get(unit), steps: TIME, binary: false };
    // Other programs' units have prefixes of their own, or are points of some scale.
    if (!/^([a-z]*\/s|tps|B|)$/.test(unit) && unit !== 'B/s') return { factor: 1, steps: [[1, unit]], binary: false };
    const binary = unit === 'B' || unit === 'B/s';
    const steps = (binary ? BINARY : DECIMAL).map(([size, prefix]) => [
      size,
      binary ? prefix + unit : [prefix, unit].filter(Boolean).join(NBSP),
    ]);
    return { factor: 1, steps, binary };
  }

  /** The greatest step that is not above `value`, as [size, label]. */
  function stepFor(value, steps) {
    const fitting = steps.filter(([size]) => Math.abs(value) >= size * 0.9995);
    return fitting.length ? fitting[fitting.length - 1] : steps[0];
  }

  /** A number with its unit, for people. */
  function human(value, unit, digits = 3) {
    if (!isNumber(value)) return '–';
    const { factor, steps } = quantity(unit);
    const [size, label] = stepFor(value * factor, steps);
    const gap = label === '' || label.startsWith(NBSP) ? '' : NBSP;
    return significant((value * factor) / size, digits) + gap + label;
  }

  /** A number and its interval: `12.3 k op/s [12.1 k op/s, 12.5 k op/s]` with the unit said once. */
  function withInterval(value, interval, unit) {
    if (!isNumber(value)) return '–';
    if (!interval || !interval.every(isNumber)) return human(value, unit, 4);
    const { factor, steps } = quantity(unit);
    const [size, label] = stepFor(value * factor, steps);
    const [middle, low, high] = [value, ...interval].map((each) => significant((each * factor) / size, 4));
    return `${middle} [${low}, ${high}]${NBSP}${label}`.trim();
  }

  const ratioText = (value) =>
    isNumber(value) ? (value >= 0.1 && value < 10 ? value.toFixed(3) : significant(value)) : '–';
  const percentText = (share, digits = 4) => `${Number((share * 100).toPrecision(digits))}${NBSP}%`;
  const threadsText = (threads) => `${threads} ${threads === 1 ? 'thread' : 'threads'}`;

  const metricOf = (name) => (root.metrics || {})[name] || {};
  const metricText = (name) => metricOf(name).words || String(name);

  /** 0.999 → `p99.9`, 1 → `max`. */
  function quantileText(quantile) {
    return quantile >= 1 ? 'max' : `p${Number((quantile * 100).toFixed(6))}`;
  }

  /** A list in words: `a, b and c`. */
  function listText(parts) {
    if (parts.length < 2) return parts.join('');
    return `${parts.slice(0, -1).join(', ')} and ${parts[parts.length - 1]}`;
  }

  /** Cuts a name that is too long for a drawing; the tables have it whole. */
  function shorten(text, most) {
    const characters = [...plainText(text)];
    return characters.length <= most ? characters.join('') : `${characters.slice(0, most - 1).join('')}…`;
  }

  // ---------------------------------------------------------------- elements

  const SVG = 'http://www.w3.org/2000/svg';

  /**
   * Makes an element. Children are nodes or text, which stays text.
   * @param {string} tag `svg:` before it for an element of a drawing
   * @param {Object} attributes
   */
  function make(tag, attributes = {}, ...children) {
    const element = tag.startsWith('svg:') ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === 'function') element.addEventListener(name, value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  // ---------------------------------------------------------------- looks

  // After Okabe and Ito. Against the ground the contrast is at least 3 : 1, and any two differ by a ΔE*ab of at least 11
  // for normal sight, protanopia and deuteranopia (Machado's matrices).
  const COLOURS = {
    light: [
      '#0072b2',
      '#d55e00',
      '#007a5a',
      '#8f2d78',
      '#978040',
      '#2f2f2f',
      '#3b9cc4',
      '#673805',
      '#7a5cf0',
      '#737f95',
    ],
    dark: [
      '#56b4e9',
      '#ff8a3d',
      '#5fe0b8',
      '#c56ba0',
      '#f5e06a',
      '#f4f4f4',
      '#a9c7d6',
      '#9c7350',
      '#8f7dff',
      '#a8a39a',
    ],
  };
  const DASHES = ['solid', [7, 3], [2, 2], [9, 3, 2, 3], [5, 2], 'solid', [2, 4], [9, 3, 2, 3, 2, 3], [12, 3], [4, 4]];
  // In a box of 10 × 10. Shapes, because colour alone tells nothing to some and in grey print to all.
  const SHAPES = [
    'M0 5A5 5 0 1 0 10 5A5 5 0 1 0 0 5Z',
    'M0.5 0.5H9.5V9.5H0.5Z',
    'M5 0L10 9.5H0Z',
    'M5 0L10 5L5 10L0 5Z',
    'M0 0.5H10L5 10Z',
    'M3.5 0H6.5V3.5H10V6.5H6.5V10H3.5V6.5H0V3.5H3.5Z',
    'M2 0L5 3L8 0L10 2L7 5L10 8L8 10L5 7L2 10L0 8L3 5L0 2Z',
    'M5 0L6.5 3.5L10 3.8L7.4 6.2L8.2 10L5 8L1.8 10L2.6 6.2L0 3.8L3.5 3.5Z',
    'M2.5 0.5H7.5L10 5L7.5 9.5H2.5L0 5Z',
    'M0 3H10V7H0Z',
  ];
  const shapeName = (shape) => `sign-of-arm-${SHAPES.indexOf(shape)}`;
  SHAPES.forEach((shape) => echarts.graphic.registerShape(shapeName(shape), echarts.graphic.extendPath(shape, {})));
  const THEMES = {
    light: {
      name: 'light',
      ink: '#1c1f22',
      soft: '#5a6169',
      line: '#c9ced3',
      faint: '#e9ebed',
      ground: '#ffffff',
      accent: '#0b5394',
      colours: COLOURS.light,
    },
    dark: {
      name: 'dark',
      ink: '#e6e8ea',
      soft: '#a4acb4',
      line: '#4a525a',
      faint: '#2a3037',
      ground: '#15191d',
      accent: '#7db8ee',
      colours: COLOURS.dark,
    },
  };
  const darkScreen = window.matchMedia('(prefers-color-scheme: dark)');
  let printing = false;
  const screenTheme = () => (darkScreen.matches && !printing ? THEMES.dark : THEMES.light);

  /** Colour, shape and dashes of an arm, by its name. */
  function looks(name, theme) {
    const number = numberOfName(name);
    const turn = Math.floor(number / 10);
    return {
      colour: theme.colours[number % 10],
      shape: SHAPES[(number + turn) % 10],
      dash: DASHES[(number + 3 * turn) % 10],
    };
  }

  /** The sign of an arm as a small drawing, for legends and tooltips. */
  function swatch(name, theme) {
    const { colour, shape, dash } = looks(name, theme);
    return make(
      'svg:svg',
      { class: 'swatch', viewBox: '0 0 28 10', width: 28, height: 10, 'aria-hidden': 'true' },
      make('svg:path', {
        d: 'M0 5H28',
        stroke: colour,
        'stroke-width': 2,
        fill: 'none',
        'stroke-dasharray': Array.isArray(dash) ? dash.join(' ') : undefined,
      }),
      make('svg:path', { d: shape, fill: colour, transform: 'translate(9 0)' }),
    );
  }

  // ---------------------------------------------------------------- axes

  /** Round numbers from `low` to `high`, about `count` of them. */
  function roundTicks(low, high, count) {
    const raw = (high - low) / Math.max(count, 1);
    if (!(raw > 0)) return [low];
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
    const ticks = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at += 1) ticks.push(at * step);
    return ticks;
  }

  /** Ticks for a logarithmic scale: powers, with 2 and 5 between them where there is room. */
  function logTicks(low, high, binary, most = 7) {
    const base = binary ? 2 : 10;
    const from = Math.floor(Math.log(low) / Math.log(base));
    const to = Math.ceil(Math.log(high) / Math.log(base));
    const between = (parts, stride) => {
      const ticks = [];
      for (let power = Math.ceil(from / stride) * stride; power <= to; power += stride) {
        ticks.push(...parts.map((part) => part * base ** power));
      }
      return ticks.filter((tick) => tick >= low * 0.9999 && tick <= high * 1.0001);
    };
    const wishes = [
      ...(binary
        ? []
        : [
            [[1, 2, 5], 1],
            [[1, 3], 1],
          ]),
      ...[1, 2, 3, 4, 6, 10].map((stride) => [[1], stride]),
    ];
    const ticks = wishes.map((wish) => between(...wish)).find((each) => each.length <= most) || [];
    return ticks.length > 2 ? ticks : roundTicks(low, high, 4);
  }

  /**
   * An axis for values of one unit.
   * @param {number[]} values all that must fit on it
   * @param {{unit: string, log?: boolean, zero?: boolean, name?: string, count?: number, pad?: number}} wish `zero`:
   *   begins at zero unless logarithmic; `count`: about so many ticks; `pad`: share of the range to leave free
   * @returns {{map: function(number): ?number, unmap: function(number): number, option: Object}}
   */
  function makeAxis(values, wish) {
    const { factor, steps, binary } = quantity(wish.unit || '');
    const fitting = values.filter((value) => (wish.log ? isPositive(value) : isNumber(value)));
    const known = (fitting.length ? fitting : [1]).map((value) => value * factor);
    let low = known.reduce((least, value) => Math.min(least, value));
    let high = known.reduce((most, value) => Math.max(most, value));
    if (wish.log) return logAxis(low, high, { factor, steps, binary }, wish);
    if (wish.zero) low = Math.min(low, 0);
    const room = (high - low || Math.abs(high) || 1) * (wish.pad === undefined ? 0.06 : wish.pad);
    high += room;
    if (!wish.zero) low -= room;
    const [size, label] = stepFor(Math.max(Math.abs(low), Math.abs(high)), steps);
    const ticks = roundTicks(low / size, high / size, wish.count || 5);
    const toUnit = factor / size;
    return {
      map: (value) => (isNumber(value) ? value * toUnit : null),
      unmap: (position) => position / toUnit,
      option: axisOption(
        low / size,
        high / size,
        ticks,
        (tick) => String(Number(tick.toPrecision(6))).replace('-', '−'),
        [wish.name, label.trim()].filter(Boolean).join(', '),
      ),
    };
  }

  function logAxis(low, high, { factor, steps, binary }, wish) {
    const room = Math.max((high / low) ** 0.05, 1.02);
    const [from, to] = [low / room, high * room];
    const ticks = logTicks(from, to, binary, wish.count ? wish.count + 1 : 7);
    const text = (position) => {
      const value = 10 ** position;
      const [size, label] = stepFor(value, steps);
      const tick = Number((value / size).toPrecision(4));
      return label === '' ? String(tick) : `${tick}${label.startsWith(NBSP) ? '' : NBSP}${label}`;
    };
    return {
      map: (value) => (isPositive(value) ? Math.log10(value * factor) : null),
      unmap: (position) => 10 ** position / factor,
      option: axisOption(Math.log10(from), Math.log10(to), ticks.map(Math.log10), text, wish.name || ''),
    };
  }

  /** An axis with the given ends, ticks and text of a tick, in positions. */
  function axisOption(min, max, ticks, text, name) {
    return {
      type: 'value',
      min,
      max,
      name,
      axisTick: { customValues: ticks },
      axisLabel: { customValues: ticks, formatter: text },
    };
  }

  /** Threads, evenly spaced for each doubling. */
  function levelAxis(levels) {
    const map = (level) => Math.log2(Math.max(level, 0.5));
    const ends = levels.map(map);
    const room = ends.length > 1 ? (ends[ends.length - 1] - ends[0]) * 0.06 : 1;
    return {
      map,
      unmap: (position) => nearest(levels, position, map),
      option: axisOption(
        Math.min(...ends) - room,
        Math.max(...ends) + room,
        ends,
        (position) => String(Math.round(2 ** position)),
        'threads',
      ),
    };
  }

  /** The candidate whose position is nearest to `position`. */
  function nearest(candidates, position, positionOf) {
    return candidates.reduce(
      (best, each) => (Math.abs(positionOf(each) - position) < Math.abs(positionOf(best) - position) ? each : best),
      candidates[0],
    );
  }

  /** Where a quantile lies on a scale of nines: each further nine takes the same room, the maximum the last place. */
  const ninesOf = (quantile) => (quantile >= 1 ? 5 : -Math.log10(1 - quantile));
  const QUANTILES = [0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 1];
  const quantileAt = (position) => nearest(QUANTILES, position, ninesOf);

  // ---------------------------------------------------------------- what is drawn

  /** Marks below the data: not for the pointer. */
  const SILENT = { type: 'custom', silent: true, animation: false, tooltip: { show: false } };

  /** The area between two lines, in pieces where a value is missing. Points are [x, low, high] in positions. */
  function band(points, colour, opacity = 0.1) {
    const pieces = [[]];
    for (const point of points) {
      if (point.every(isNumber)) pieces[pieces.length - 1].push(point);
      else if (pieces[pieces.length - 1].length) pieces.push([]);
    }
    return pieces
      .filter((piece) => piece.length > 1)
      .map((piece) => ({
        ...SILENT,
        z: 1,
        data: [[piece[0][0], piece[0][1]]],
        renderItem: (_, api) => ({
          type: 'polygon',
          silent: true,
          shape: {
            points: [
              ...piece.map(([x, low]) => api.coord([x, low])),
              ...piece
                .slice()
                .reverse()
                .map(([x, , high]) => api.coord([x, high])),
            ],
          },
          style: { fill: colour, opacity },
        }),
      }));
  }

  /** Error bars. Points are [x, low, high] in positions, or [y, low, high] if `lying`. */
  function errorBars(points, colour, lying = false) {
    const whole = points.filter((point) => point.every(isNumber));
    return {
      ...SILENT,
      z: 2,
      data: whole.map(([at, low]) => (lying ? [low, at] : [at, low])),
      renderItem: (params, api) => {
        const [at, low, high] = whole[params.dataIndex];
        const [from, to] = lying
          ? [api.coord([low, at]), api.coord([high, at])]
          : [api.coord([at, low]), api.coord([at, high])];
        const cap = lying ? [0, 3] : [3, 0];
        const stroke = (a, b) => ({
          type: 'line',
          silent: true,
          style: { stroke: colour, lineWidth: 1.25 },
          shape: { x1: a[0], y1: a[1], x2: b[0], y2: b[1] },
        });
        const ends = [from, to].map(([x, y]) => stroke([x - cap[0], y - cap[1]], [x + cap[0], y + cap[1]]));
        return { type: 'group', children: [stroke(from, to), ...ends] };
      },
    };
  }

  /** A shaded rectangle with a word in its upper left corner; corners in positions. */
  function shade([x0, y0], [x1, y1], theme, word = '') {
    return {
      ...SILENT,
      z: 0,
      data: [[x0, y0]],
      renderItem: (_, api) => {
        const [left, bottom] = api.coord([x0, y0]);
        const [right, top] = api.coord([x1, y1]);
        return {
          type: 'group',
          children: [
            {
              type: 'rect',
              silent: true,
              style: { fill: theme.soft, opacity: 0.13 },
              shape: { x: left, y: top, width: right - left, height: bottom - top },
            },
            {
              type: 'text',
              silent: true,
              x: left + 4,
              y: top + 4,
              style: { text: word, fill: theme.soft, font: `11px ${FONT}` },
            },
          ],
        };
      },
    };
  }

  /** A straight line between two points in positions. */
  function rule(from, to, colour, dash = null) {
    return {
      ...SILENT,
      z: 1,
      data: [from],
      renderItem: (_, api) => {
        const [[x1, y1], [x2, y2]] = [api.coord(from), api.coord(to)];
        return {
          type: 'line',
          silent: true,
          shape: { x1, y1, x2, y2 },
          style: { stroke: colour, lineWidth: 1, lineDash: dash },
        };
      },
    };
  }

  /**
   * A line of an arm. With many points its shape is put on a few of them, at other places for each arm.
   * @param {Array} points [x, y] in positions, y null where nothing is known
   */
  function line(name, points, theme, more = {}) {
    const { colour, shape, dash } = looks(name, theme);
    const few = points.length <= 16;
    const stride = Math.ceil(points.length / 6);
    const offset = few ? 0 : Math.floor(((numberOfName(name) % 5) / 5) * stride);
    return {
      type: 'line',
      name: String(name),
      z: 3,
      animation: false,
      symbol: `path://${shape}`,
      data: points.map((point, index) => ({ value: point, symbolSize: few || index % stride === offset ? 8 : 0 })),
      showAllSymbol: true,
      connectNulls: false,
      emphasis: { disabled: true },
      lineStyle: { color: colour, width: 1.75, type: dash },
      itemStyle: { color: colour },
      ...more,
    };
  }

  /** Shapes of an arm at points in positions. */
  function dots(name, points, theme, more = {}) {
    const { colour, shape } = looks(name, theme);
    return {
      type: 'scatter',
      name: String(name),
      z: 4,
      animation: false,
      symbol: `path://${shape}`,
      symbolSize: 9,
      data: points,
      itemStyle: { color: colour, opacity: 1 },
      emphasis: { disabled: true },
      ...more,
    };
  }

  /**
   * Text of a tooltip: a heading and rows of [arm or null, label, figure].
   * @returns {HTMLElement}
   */
  function tipBox(heading, rows, theme) {
    const body = rows.map(([arm, label, figure]) =>
      make(
        'tr',
        {},
        make('td', {}, arm === null ? '' : swatch(arm, theme)),
        make('th', { scope: 'row', dir: 'auto' }, shorten(label, 48)),
        make('td', { class: 'number' }, figure),
      ),
    );
    return make(
      'div',
      { class: 'tip' },
      make('p', { dir: 'auto' }, shorten(heading, 90)),
      make('table', {}, make('tbody', {}, ...body)),
    );
  }

  /**
   * The whole option of a chart.
   * @param {Object} context of the figure
   * @param {{x: Object, y: Object|Object[], series: Object[], tip: function, pointer?: string, shadow?: boolean}} parts
   *   `x` and `y` are ECharts axes; `tip(position, params)` makes the tooltip; `pointer` is the axis it follows
   */
  function chartOption(context, { x, y, series, tip, pointer = 'x', shadow = false }) {
    const { theme } = context;
    const axes = (Array.isArray(y) ? y : [y]).map((axis) => dressAxis(axis, theme, 'y'));
    const inExport = context.exporting ? exportParts(context) : { top: 0 };
    return {
      animation: false,
      backgroundColor: context.exporting ? theme.ground : 'transparent',
      textStyle: { fontFamily: FONT, color: theme.ink, fontSize: 12 },
      aria: { enabled: false },
      grid: {
        left: 6,
        right: context.exporting ? 24 : 14,
        top: inExport.top + (axes.some((axis) => axis.name) ? 28 : 10),
        bottom: context.exporting ? 34 : 26,
        outerBoundsMode: 'same',
        outerBoundsContain: 'axisLabel',
      },
      xAxis: dressAxis(x, theme, 'x'),
      yAxis: axes.length === 1 ? axes[0] : axes,
      tooltip: {
        trigger: 'axis',
        confine: true,
        transitionDuration: 0,
        axisPointer: {
          type: shadow ? 'shadow' : 'line',
          axis: pointer,
          snap: false,
          animation: false,
          lineStyle: { color: theme.soft, type: [2, 2] },
          shadowStyle: { color: theme.soft, opacity: 0.1 },
          label: { show: false },
        },
        formatter: (params) => {
          const all = Array.isArray(params) ? params : [params];
          return all.length ? tip(all[0].axisValue, all) : '';
        },
        backgroundColor: theme.ground,
        borderColor: theme.line,
        borderWidth: 1,
        padding: [6, 10],
        extraCssText: 'border-radius:3px;box-shadow:0 2px 8px rgb(0 0 0/18%);',
        textStyle: { color: theme.ink, fontSize: 12, fontFamily: FONT },
      },
      ...inExport.option,
      series,
    };
  }

  function dressAxis(axis, theme, side) {
    const labels = axis.axisLabel || {};
    const ofCategories = axis.type === 'category';
    return {
      nameLocation: side === 'x' ? 'middle' : 'end',
      nameGap: side === 'x' ? 24 : 10,
      splitNumber: 5,
      nameTextStyle: {
        color: theme.soft,
        fontSize: 12,
        align: side === 'x' ? 'center' : axis.position || 'left',
        padding: 0,
      },
      ...axis,
      axisLine: { show: side === 'x' && !ofCategories, lineStyle: { color: theme.line }, onZero: false },
      axisTick: { ...axis.axisTick, show: side === 'x' && !ofCategories, lineStyle: { color: theme.line } },
      splitLine: { show: axis.splitLine !== false && !ofCategories, lineStyle: { color: theme.faint } },
      axisLabel: { color: theme.soft, fontSize: 12, hideOverlap: side === 'x', ...labels },
    };
  }

  /** What a drawing of its own needs that the page says around it: a title, and which arm is which. */
  function exportParts(context) {
    const { theme } = context;
    const names = context.legend === false ? [] : context.arms.map((arm) => context.trial.arms[arm]);
    const rows = Math.ceil(names.length / 4);
    const width = 210;
    const legend = names.flatMap((name, index) => {
      const { colour, shape, dash } = looks(name, theme);
      const [left, top] = [16 + (index % 4) * width, 58 + Math.floor(index / 4) * 20];
      return [
        {
          type: 'line',
          silent: true,
          shape: { x1: left, y1: top + 6, x2: left + 28, y2: top + 6 },
          style: { stroke: colour, lineWidth: 2, lineDash: Array.isArray(dash) ? dash : null },
        },
        { type: shapeName(shape), silent: true, x: left + 9, y: top + 1, style: { fill: colour } },
        {
          type: 'text',
          silent: true,
          x: left + 34,
          y: top + 7,
          style: { textVerticalAlign: 'middle', text: shorten(name, 24), fill: theme.ink, font: `12px ${FONT}` },
        },
      ];
    });
    return {
      top: 58 + rows * 20,
      option: {
        title: {
          text: shorten(context.heading, 100),
          subtext: shorten(context.subheading, 130),
          left: 11,
          top: 10,
          itemGap: 8,
          textStyle: { color: theme.ink, fontSize: 15, fontWeight: 600, fontFamily: FONT },
          subtextStyle: { color: theme.soft, fontSize: 12, fontFamily: FONT },
        },
        graphic: legend,
      },
    };
  }

  // ---------------------------------------------------------------- plots

  const nameOf = (context, arm) => plainText(context.trial.arms[arm]);
  const cellOf = (section, arm, threads) => section.cells.find((cell) => cell.arm === arm && cell.threads === threads);
  /** The arms to draw at a level for which `has` finds something in their cell, as [arm, cell, found]. */
  function cellsWith(context, level, has) {
    return context.arms
      .map((arm) => [arm, cellOf(context.section, arm, level)])
      .filter(([, cell]) => cell && !cell.cannot)
      .map(([arm, cell]) => [arm, cell, has(cell)])
      .filter(([, , found]) => (Array.isArray(found) ? found.length > 0 : found !== undefined && found !== null));
  }
  /** Sorts arms by a figure for a sentence: `xfs 1.2, ext4 1.4`. */
  const inOrder = (entries, unit) =>
    entries.map(([name, value]) => `${shorten(name, 80)} ${human(value, unit)}`).join(', ');
  const rowsOf = (context, levels, perCell) =>
    levels.flatMap((threads) =>
      context.allArms.flatMap((arm) => {
        const cell = cellOf(context.section, arm, threads);
        return cell ? perCell(cell, [context.trial.arms[arm], threads]) : [];
      }),
    );
  const ARM_AND_THREADS = [
    { key: 'arm', label: 'arm', unit: 'text' },
    { key: 'threads', label: 'threads', unit: 'count' },
  ];
  const tableLevels = (context, all) => (all || context.level === undefined ? context.section.levels : [context.level]);

  /** Throughput against threads; with one level, arms one below the other. */
  const throughput = {
    log: true,
    legend: (context) => context.section.levels.length > 1 || 'switches',
    view(context) {
      const { section, theme, log } = context;
      const cells = section.levels.flatMap((level) => cellsWith(context, level, (cell) => cell.rate));
      if (!cells.length) return null;
      if (section.levels.length === 1)
        return forest(
          context,
          cells.map(([arm, cell]) => ({
            label: nameOf(context, arm),
            name: nameOf(context, arm),
            value: cell.rate,
            interval: cell.rate_interval,
            heading: `${nameOf(context, arm)}, ${threadsText(cell.threads)}`,
            runs: cell.runs,
          })),
          section.unit,
        );
      const x = levelAxis(section.levels);
      const y = makeAxis(
        cells.flatMap(([, cell, rate]) => [rate, ...(cell.rate_interval || [])]),
        { unit: section.unit, log, zero: true, name: section.less_is_better ? 'less is better' : '' },
      );
      const series = context.arms.flatMap((arm) => {
        const own = cells.filter(([other]) => other === arm).map(([, cell]) => cell);
        const name = nameOf(context, arm);
        const { colour } = looks(name, theme);
        const bars = own
          .filter((cell) => cell.rate_interval)
          .map((cell) => [x.map(cell.threads), ...cell.rate_interval.map(y.map)]);
        return [
          ...(context.arms.length > MOST_BANDS ? [] : band(bars, colour)),
          errorBars(bars, colour),
          line(
            name,
            own.map((cell) => [x.map(cell.threads), y.map(cell.rate)]),
            theme,
          ),
        ];
      });
      const tip = (position) => {
        const level = x.unmap(position);
        return tipBox(
          threadsText(level),
          cellsWith(context, level, (cell) => cell.rate).map(([arm, cell]) => [
            nameOf(context, arm),
            nameOf(context, arm),
            withInterval(cell.rate, cell.rate_interval, section.unit),
          ]),
          theme,
        );
      };
      return { option: chartOption(context, { x: x.option, y: y.option, series, tip }), gist: rateGist(context) };
    },
    table(context) {
      return {
        columns: [
          ...ARM_AND_THREADS,
          { key: 'rate', label: 'rate', unit: context.section.unit },
          { key: 'rate_low', label: 'low', unit: context.section.unit },
          { key: 'rate_high', label: 'high', unit: context.section.unit },
          { key: 'unit', label: '', unit: 'text', csvOnly: true },
          { key: 'runs', label: 'runs', unit: 'count' },
          { key: 'note', label: 'note', unit: 'text' },
        ],
        rows: rowsOf(context, context.section.levels, (cell, key) => [
          [
            ...key,
            cell.rate,
            ...(cell.rate_interval || [null, null]),
            context.section.unit,
            cell.runs,
            outcomeText(cell),
          ],
        ]),
      };
    },
  };

  const outcomeText = (cell) => (cell.cannot ? `cannot: ${cell.cannot}` : cell.failed ? 'failed' : '');

  function rateGist(context) {
    const level = context.section.levels[context.section.levels.length - 1];
    const cells = cellsWith(context, level, (cell) => cell.rate).map(([arm, , rate]) => [nameOf(context, arm), rate]);
    cells.sort((a, b) => (context.section.less_is_better ? a[1] - b[1] : b[1] - a[1]));
    return `With ${threadsText(level)}, best first: ${inOrder(cells, context.section.unit)}.`;
  }

  /**
   * Values with intervals, one below the other, each in a row of its own with its name.
   * @param {Array<{label: string, name: string, value: number, interval?: number[], heading: string,
   *   runs?: number}>} rows `name` gives the looks
   */
  function forest(context, rows, unit) {
    const { theme, log } = context;
    const all = rows.flatMap((row) => [row.value, ...(row.interval || [])]).filter(isNumber);
    const [least, most] = [Math.min(...all), Math.max(...all)];
    const areRates = rows.some((row) => row.interval);
    const x = makeAxis(all, {
      unit,
      log,
      name: areRates && context.section.less_is_better ? 'less is better' : '',
      zero: least < most * 0.5 || !areRates,
      count: context.width < 480 ? 3 : 5,
      pad: 0.08,
    });
    const y = {
      type: 'category',
      inverse: true,
      data: rows.map((_, index) => String(index)),
      axisLabel: { interval: 0, formatter: (index) => rowLabel(rows[index], context), color: theme.ink },
    };
    const series = rows.flatMap((row, index) => {
      const { colour } = looks(row.name, theme);
      const bars = row.interval ? [errorBars([[index, ...row.interval.map(x.map)]], colour, true)] : [];
      return [...bars, dots(row.name, [[x.map(row.value), index]], theme)];
    });
    const tip = (_, params) => {
      const row = rows[Number(params[0].axisValue)];
      const lines = [[row.name, row.label, withInterval(row.value, row.interval, unit)]];
      if (row.runs) lines.push([null, 'runs', String(row.runs)]);
      return tipBox(row.heading, lines, theme);
    };
    return {
      option: chartOption(context, { x: { ...x.option, splitLine: true }, y, series, tip, pointer: 'y', shadow: true }),
      height: 64 + rows.length * 26,
      gist: `${inOrder(
        rows.map((row) => [row.heading, row.value]),
        unit,
      )}.`,
    };
  }

  const rowLabel = (row, context) => (row ? shorten(row.label, context.width < 480 ? 16 : 34) : '');

  /** Latency percentiles on a scale of nines. */
  const latency = {
    levels: true,
    log: true,
    logAtFirst: true,
    legend: () => true,
    view(context) {
      const { theme, log } = context;
      const cells = cellsWith(context, context.level, (cell) => cell.latency);
      if (!cells.length) return null;
      const places = QUANTILES.map(ninesOf);
      const x = axisOption(
        0.15,
        5.15,
        places,
        (place) => quantileText(quantileAt(place)),
        'share of operations that are faster',
      );
      const y = makeAxis(
        cells.flatMap(([, , points]) => points.flatMap((point) => point.slice(1))),
        { unit: 'ns', log, zero: true, name: 'latency' },
      );
      // Bars stand a little apart: the ranges of single runs overlap.
      const apart = (arm) =>
        (context.arms.indexOf(arm) - (context.arms.length - 1) / 2) * Math.min(0.035, 0.16 / context.arms.length);
      const series = cells.flatMap(([arm, , points]) => {
        const name = nameOf(context, arm);
        const place = (quantile) => ninesOf(quantile) + apart(arm);
        return [
          errorBars(
            points.map(([quantile, , low, high]) => [place(quantile), y.map(low), y.map(high)]),
            looks(name, theme).colour,
          ),
          line(
            name,
            // A percentile that is not known interrupts the line.
            QUANTILES.map((quantile) => [place(quantile), y.map((points.find(([of]) => of === quantile) || [])[1])]),
            theme,
          ),
        ];
      });
      const tip = (position) => {
        const quantile = quantileAt(position);
        const rows = cells
          .map(([arm, cell, points]) => [
            arm,
            points.find((point) => ninesOf(point[0]) === ninesOf(quantile)),
            // The greatest of more operations is greater.
            quantile >= 1 ? ` of ${cell.latency_operations} operations` : '',
          ])
          .map(([arm, point, of]) => [
            nameOf(context, arm),
            nameOf(context, arm),
            point ? withInterval(point[1], point.slice(2), 'ns') + of : 'too few operations',
          ]);
        return tipBox(`${quantileText(quantile)}, ${threadsText(context.level)}`, rows, theme);
      };
      const at99 = cells
        .map(([arm, , points]) => [nameOf(context, arm), points.find((point) => point[0] === 0.99)])
        .filter(([, point]) => point)
        .map(([name, point]) => [name, point[1]])
        .sort((a, b) => a[1] - b[1]);
      return {
        option: chartOption(context, { x, y: y.option, series, tip }),
        gist: at99.length
          ? `99th percentile with ${threadsText(context.level)}, best first: ${inOrder(at99, 'ns')}.`
          : '',
      };
    },
    table(context, all) {
      return {
        columns: [
          ...ARM_AND_THREADS,
          { key: 'quantile', label: 'quantile', unit: 'quantile' },
          { key: 'latency_ns', label: 'latency', unit: 'ns' },
          { key: 'operations', label: 'of operations', unit: 'count' },
          { key: 'least_run_ns', label: 'least run', unit: 'ns' },
          { key: 'greatest_run_ns', label: 'greatest run', unit: 'ns' },
        ],
        rows: rowsOf(context, tableLevels(context, all), (cell, key) =>
          (cell.latency || []).map(([quantile, ns, low, high]) => [...key, quantile, ns, cell.latency_operations, low, high]),
        ),
      };
    },
  };

  /** Cumulative distribution of latency. */
  const cdf = {
    levels: true,
    log: true,
    logAtFirst: true,
    legend: () => true,
    view(context) {
      const { theme, log } = context;
      const cells = cellsWith(context, context.level, (cell) => cell.cdf);
      if (!cells.length) return null;
      const x = makeAxis(
        cells.flatMap(([, , points]) => points.map((point) => point[0])),
        { unit: 'ns', log, zero: true, name: 'latency', count: context.width < 480 ? 3 : 6 },
      );
      const ticks = [0, 0.25, 0.5, 0.75, 1];
      const y = axisOption(0, 1, ticks, (share) => `${share * 100}${NBSP}%`, 'share of operations');
      const series = cells.map(([arm, , points]) =>
        line(
          nameOf(context, arm),
          points.map(([ns, share]) => [x.map(ns), share]),
          theme,
        ),
      );
      const tip = (position) => {
        const ns = x.unmap(position);
        return tipBox(
          `done within ${human(ns, 'ns')}`,
          cells.map(([arm, , points]) => [
            nameOf(context, arm),
            nameOf(context, arm),
            percentText(shareWithin(points, ns, x), 4),
          ]),
          theme,
        );
      };
      const medians = cells
        .map(([arm, , points]) => [nameOf(context, arm), (points.find((point) => point[1] >= 0.5) || [null])[0]])
        .filter(([, ns]) => ns !== null)
        .sort((a, b) => a[1] - b[1]);
      return {
        option: chartOption(context, { x: x.option, y, series, tip }),
        gist: `Half of the operations with ${threadsText(context.level)} are done within: ${inOrder(medians, 'ns')}.`,
      };
    },
    table(context, all) {
      return {
        columns: [
          ...ARM_AND_THREADS,
          { key: 'latency_ns', label: 'latency up to', unit: 'ns' },
          { key: 'share', label: 'share', unit: 'share' },
        ],
        rows: rowsOf(context, tableLevels(context, all), (cell, key) =>
          (cell.cdf || []).map((point) => [...key, ...point]),
        ),
      };
    },
  };

  /** Share of operations done within a time, between two known points as the line is drawn. */
  function shareWithin(points, ns, x) {
    const after = points.findIndex(([upTo]) => upTo > ns);
    if (after < 0) return 1;
    if (after === 0) return 0;
    const [[from, low], [to, high]] = [points[after - 1], points[after]];
    const [left, at, right] = [from, ns, to].map(x.map);
    return low + ((high - low) * (at - left)) / (right - left);
  }

  const SERIES = new Map([
    [
      'throughput',
      {
        label: 'throughput',
        unit: 'op/s',
        of: (cell) => cell.series && cell.series.typical,
        step: (cell) => cell.series.step_seconds,
      },
    ],
    [
      'p50',
      {
        label: 'median latency',
        unit: 'ns',
        of: (cell) => cell.tails && cell.tails.p50,
        step: (cell) => cell.tails.step_seconds,
      },
    ],
    [
      'p99',
      {
        label: 'p99 latency',
        unit: 'ns',
        of: (cell) => cell.tails && cell.tails.p99,
        step: (cell) => cell.tails.step_seconds,
      },
    ],
  ]);

  /** Throughput or latency in the course of a run. */
  const series = {
    levels: true,
    log: true,
    legend: () => true,
    choices: (context) => [
      {
        key: 'what',
        label: 'what',
        options: [...SERIES]
          .filter(([, kind]) => context.section.cells.some((cell) => (kind.of(cell) || []).length))
          .map(([value, kind]) => ({ value, label: kind.label })),
      },
    ],
    view(context) {
      const { theme, log, section } = context;
      const kind = SERIES.get(context.choice.what) || SERIES.get('throughput');
      // Nothing completed in a step: no latency is known, while a rate of nothing is a rate.
      const clean = (value) => (kind.unit === 'ns' && !isPositive(value) ? null : value);
      const cells = cellsWith(context, context.level, (cell) => kind.of(cell)).map(([arm, cell, values]) => [
        arm,
        cell,
        values.map(clean),
      ]);
      if (!cells.length) return null;
      const bands = kind.unit === 'op/s' && context.arms.length <= MOST_BANDS;
      const extra = (cell) => (bands ? [...(cell.series.low || []), ...(cell.series.high || [])] : []);
      const y = makeAxis(
        cells.flatMap(([, cell, values]) => [...values, ...extra(cell)]),
        { unit: kind.unit, log, zero: true },
      );
      const end = Math.max(...cells.map(([, cell, values]) => values.length * kind.step(cell)));
      const ticks = roundTicks(0, end, context.width < 480 ? 4 : 8);
      const x = axisOption(0, end, ticks, (tick) => String(Number(tick.toPrecision(6))), 'seconds');
      const drawn = cells.flatMap(([arm, cell, values]) => {
        const name = nameOf(context, arm);
        const middle = (index) => (index + 0.5) * kind.step(cell);
        const range = bands
          ? (cell.series.low || []).map((low, index) => [
              middle(index),
              y.map(low),
              y.map((cell.series.high || [])[index]),
            ])
          : [];
        return [
          ...band(range, looks(name, theme).colour),
          line(
            name,
            values.map((value, index) => [middle(index), y.map(value)]),
            theme,
          ),
        ];
      });
      const warmup = isPositive(section.warmup_seconds)
        ? [shade([0, y.option.min], [Math.min(section.warmup_seconds, end), y.option.max], theme, 'warm-up')]
        : [];
      const tip = (position) => seriesTip(context, kind, cells, position);
      return {
        option: chartOption(context, { x, y: y.option, series: [...warmup, ...drawn], tip }),
        gist: seriesGist(context, kind, cells),
      };
    },
    table(context, all) {
      const at = (values, index) => (values && index < values.length ? values[index] : null);
      return {
        columns: [
          ...ARM_AND_THREADS,
          { key: 'from_seconds', label: 'from', unit: 's' },
          { key: 'rate', label: 'rate', unit: 'op/s' },
          { key: 'rate_low', label: 'low', unit: 'op/s' },
          { key: 'rate_high', label: 'high', unit: 'op/s' },
          { key: 'p50_ns', label: 'p50', unit: 'ns' },
          { key: 'p99_ns', label: 'p99', unit: 'ns' },
        ],
        rows: rowsOf(context, tableLevels(context, all), (cell, key) =>
          seriesSteps(cell).map(([from, index, tail]) => {
            const parts = cell.series || {};
            const tails = cell.tails || {};
            return [
              ...key,
              from,
              at(parts.typical, index),
              at(parts.low, index),
              at(parts.high, index),
              at(tails.p50, tail) || null,
              at(tails.p99, tail) || null,
            ];
          }),
        ),
      };
    },
  };

  /** The steps of a cell's course as [seconds, index in the rates, index in the latencies]. */
  function seriesSteps(cell) {
    const [rates, tails] = [cell.series, cell.tails];
    const indices = (count) => Array.from({ length: count }, (_, index) => index);
    const exactly = (seconds) => Number(seconds.toPrecision(9));
    if (rates && tails && rates.step_seconds === tails.step_seconds) {
      return indices(Math.max(rates.typical.length, tails.p50.length)).map((index) => [
        exactly(index * rates.step_seconds),
        index,
        index,
      ]);
    }
    return [
      ...indices(rates ? rates.typical.length : 0).map((index) => [exactly(index * rates.step_seconds), index, -1]),
      ...indices(tails ? tails.p50.length : 0).map((index) => [exactly(index * tails.step_seconds), -1, index]),
    ]
      .sort((a, b) => a[0] - b[0])
      .map(([from, index, tail]) => [from, index < 0 ? Infinity : index, tail < 0 ? Infinity : tail]);
  }

  function seriesTip(context, kind, cells, position) {
    const rows = cells.map(([arm, cell, values]) => {
      const index = Math.floor(position / kind.step(cell));
      const low = kind.unit === 'op/s' ? (cell.series.low || [])[index] : null;
      const high = kind.unit === 'op/s' ? (cell.series.high || [])[index] : null;
      return [nameOf(context, arm), nameOf(context, arm), withInterval(values[index], [low, high], kind.unit)];
    });
    const inWarmup = isPositive(context.section.warmup_seconds) && position < context.section.warmup_seconds;
    return tipBox(`at ${significant(position, 3)}${NBSP}s${inWarmup ? ', warm-up' : ''}`, rows, context.theme);
  }

  const extremes = (values, unit) => `${human(Math.min(...values), unit)} and ${human(Math.max(...values), unit)}`;

  function seriesGist(context, kind, cells) {
    const parts = cells
      .map(([arm, cell, values]) => {
        const from = (context.section.warmup_seconds || 0) / kind.step(cell);
        const measured = values.filter((value, index) => index >= from && isNumber(value));
        return measured.length ? `${shorten(nameOf(context, arm), 80)} between ${extremes(measured, kind.unit)}` : null;
      })
      .filter(Boolean);
    return `${kind.label} after the warm-up, ${threadsText(context.level)}: ${parts.join('; ')}.`;
  }

  // The level of an interval where a contrast does not say.
  const USUAL_LEVEL = 0.95;

  /** How the ratio of a contrast, and what is known of it, went round by round. */
  const rounds = {
    log: true,
    legend: () => false,
    choices: (context) => [
      {
        key: 'contrast',
        label: 'comparison',
        options: withCourse(context.section).map(([index, contrast]) => ({
          value: String(index),
          group: `${metricText(contrast.metric)}, ${threadsText(contrast.threads)}`,
          label: `${shorten(pairText(context, contrast), 60)}: ${contrast.verdict}`,
        })),
      },
    ],
    view(context) {
      const found = withCourse(context.section);
      if (!found.length) return null;
      const [, contrast] = chosenContrast(context, found);
      const { theme, log } = context;
      const course = contrast.course;
      const practical = isPositive(contrast.practical)
        ? contrast.practical
        : metricOf(contrast.metric).band || context.trial.practical;
      const edges = isPositive(practical) ? [1 / (1 + practical), 1 + practical] : [1, 1];
      // The first intervals can be far wider than everything after them; they run out of the picture.
      const settled = (values) =>
        (values || []).filter((value, index, all) => isNumber(value) && index >= all.length / 3);
      const y = makeAxis([1, ...edges, ...course.pairs, ...settled(course.low), ...settled(course.high)], {
        unit: '',
        log,
        name: `ratio ${shorten(pairText(context, contrast), 48)}`,
      });
      const last = course.rounds[course.rounds.length - 1];
      const [from, to] = [course.rounds[0] - 0.5, last + 0.5];
      const ticks = roundTicks(course.rounds[0], last, context.width < 480 ? 5 : 10).filter(Number.isInteger);
      const x = axisOption(from, to, ticks.length ? ticks : [last], String, 'round');
      const drawn = roundMarks(course, { y, from, to, edges, log, theme });
      const tip = (position) => roundTip(course, Math.round(position), theme);
      const subheading = `${pairText(context, contrast)}, ${threadsText(contrast.threads)} · ${context.subheading}`;
      return {
        option: chartOption({ ...context, subheading }, { x, y: y.option, series: drawn, tip }),
        gist: contrastText(context, contrast),
        notes: [contrastText(context, contrast), ...roundsKey(edges), ...leftOutText(context)],
        alert: contrast.unequal,
      };
    },
    table(context, all) {
      const found = withCourse(context.section);
      const chosen = all ? found : found.filter((entry) => entry === chosenContrast(context, found));
      return {
        columns: [
          { key: 'a', label: 'arm', unit: 'text' },
          { key: 'b', label: 'over', unit: 'text' },
          { key: 'threads', label: 'threads', unit: 'count' },
          { key: 'metric', label: 'metric', unit: 'text' },
          { key: 'round', label: 'round', unit: 'count' },
          { key: 'pair_ratio', label: 'this round', unit: 'ratio' },
          { key: 'ratio', label: 'estimate', unit: 'ratio' },
          { key: 'low', label: 'low', unit: 'ratio' },
          { key: 'high', label: 'high', unit: 'ratio' },
        ],
        rows: chosen.flatMap(([, contrast]) =>
          contrast.course.rounds.map((round, index) => [
            context.trial.arms[contrast.a],
            context.trial.arms[contrast.b],
            contrast.threads,
            contrast.metric,
            round,
            ...['pairs', 'ratio', 'low', 'high'].map((part) => (contrast.course[part] || [])[index]),
          ]),
        ),
      };
    },
  };

  /** The band that does not matter, the pairs, and the estimate with its interval as far as it is in the picture. */
  function roundMarks(course, { y, from, to, edges, log, theme }) {
    const inside = (value) =>
      isNumber(value) && (value > 0 || !log) ? Math.min(Math.max(y.map(value), y.option.min), y.option.max) : null;
    const at = (part, index) => inside((course[part] || [])[index]);
    const pairs = course.rounds.map((round, index) => [round, y.map(course.pairs[index])]);
    return [
      shade([from, y.map(edges[0])], [to, y.map(edges[1])], theme),
      rule([from, y.map(1)], [to, y.map(1)], theme.soft),
      ...band(
        course.rounds.map((round, index) => [round, at('low', index), at('high', index)]),
        theme.accent,
        0.2,
      ),
      {
        type: 'line',
        name: 'estimate',
        z: 3,
        animation: false,
        symbol: 'none',
        emphasis: { disabled: true },
        data: course.rounds.map((round, index) => [round, at('ratio', index)]),
        lineStyle: { color: theme.accent, width: 2 },
      },
      {
        type: 'scatter',
        name: 'pair',
        z: 4,
        animation: false,
        symbol: 'circle',
        symbolSize: 7,
        emphasis: { disabled: true },
        data: pairs.filter((point) => point[1] !== null),
        itemStyle: { color: theme.ground, borderColor: theme.ink, borderWidth: 1.5, opacity: 1 },
      },
    ];
  }

  const chosenContrast = (context, found) =>
    found.find(([index]) => String(index) === context.choice.contrast) || found[0];
  const withCourse = (section) =>
    (section.contrasts || [])
      .map((contrast, index) => [index, contrast])
      .filter(([, contrast]) => contrast.course && contrast.course.rounds.length > 0);
  const pairText = (context, contrast) => `${nameOf(context, contrast.a)} / ${nameOf(context, contrast.b)}`;

  function contrastText(context, contrast) {
    const level = ` (${percentText(isNumber(contrast.interval_level) ? contrast.interval_level : USUAL_LEVEL, 7)})`;
    const interval =
      (contrast.interval || []).every(isNumber) && contrast.interval
        ? ` [${contrast.interval.map(ratioText).join(', ')}]${level}`
        : '';
    const ratio = isNumber(contrast.ratio) ? `, ratio ${ratioText(contrast.ratio)}${interval}` : '';
    return (
      `${pairText(context, contrast)}, ${metricText(contrast.metric)}, ${threadsText(contrast.threads)}: ` +
      `${contrast.verdict}${ratio}.` +
      (contrast.less_is_better ? ' Less is better.' : '')
    );
  }

  const roundsKey = ([low, high]) =>
    high > low ? [`Grey: differences that do not matter, ${ratioText(low)} to ${ratioText(high)}.`] : [];

  const leftOutText = ({ trial }) =>
    isPositive(trial.contrasts_left_out)
      ? [`${trial.contrasts_left_out} more comparisons of this trial are left out here: the page would be too large.`]
      : [];

  function roundTip(course, round, theme) {
    const index = course.rounds.indexOf(round);
    if (index < 0) return tipBox(`round ${round}`, [], theme);
    const at = (part) => (course[part] || [])[index];
    return tipBox(
      `round ${round}`,
      [
        [null, 'this round', ratioText(at('pairs'))],
        [null, 'estimate so far', ratioText(at('ratio'))],
        [
          null,
          'interval',
          isNumber(at('low')) && isNumber(at('high'))
            ? `${ratioText(at('low'))} to ${ratioText(at('high'))}`
            : 'not yet known',
        ],
      ],
      theme,
    );
  }

  /**
   * A plot of one number for each arm and level: a bar with the arm's shape on its end.
   * @param {{unit: string, of: function(Object): ?number, columns: Object[], row: function(Object): Array}} what
   */
  function barsPlot(what) {
    return {
      log: true,
      legend: (context) => context.section.levels.length > 1 || 'switches',
      view(context) {
        const { section, theme, log } = context;
        const unit = what.unit(section);
        const groups = section.levels.map((level) => cellsWith(context, level, (cell) => what.of(cell, section)));
        const values = groups.flat().map(([, , value]) => value);
        if (!values.length || (log && !values.some(isPositive))) return null;
        const level = section.levels[section.levels.length - 1];
        const best = groups[groups.length - 1]
          .map(([arm, , value]) => [nameOf(context, arm), value])
          .sort((a, b) => a[1] - b[1]);
        const gist = `${what.label(section)} with ${threadsText(level)}, least first: ${inOrder(best, unit)}.`;
        if (section.levels.length === 1) {
          const view = forest(
            context,
            groups[0].map(([arm, cell, value]) => ({
              label: nameOf(context, arm),
              name: nameOf(context, arm),
              value,
              heading: `${nameOf(context, arm)}, ${threadsText(cell.threads)}`,
            })),
            unit,
          );
          return { ...view, gist };
        }
        const y = makeAxis(values, { unit, log, zero: true, name: what.axis ? what.axis(section) : '' });
        const drawn = bars(context, groups, y);
        const x = axisOption(
          -0.5,
          groups.length - 0.5,
          groups.map((_, index) => index),
          (index) => String(section.levels[index]),
          'threads',
        );
        const tip = (position) => {
          const index = Math.min(Math.max(Math.round(position), 0), groups.length - 1);
          return tipBox(
            threadsText(section.levels[index]),
            groups[index].map(([arm, , value]) => [nameOf(context, arm), nameOf(context, arm), human(value, unit, 4)]),
            theme,
          );
        };
        return { option: chartOption(context, { x, y: y.option, series: drawn, tip }), gist };
      },
      table: (context) => ({
        columns: [...ARM_AND_THREADS, ...what.columns(context.section)],
        rows: rowsOf(context, context.section.levels, (cell, key) =>
          isNumber(what.of(cell, context.section)) ? [[...key, ...what.row(cell, context.section)]] : [],
        ),
      }),
    };
  }

  /** Bars side by side in groups, each [arm, cell, value]; positions of groups are 0, 1, 2 … */
  function bars(context, groups, y) {
    const room = 0.76 / Math.max(context.arms.length, 1);
    const place = (group, arm) => group + (context.arms.indexOf(arm) - (context.arms.length - 1) / 2) * room;
    const pixels = ((context.width - 60) / groups.length) * room;
    return context.arms.flatMap((arm) => {
      const name = nameOf(context, arm);
      const own = groups
        .flatMap((cells, group) =>
          cells.filter(([other]) => other === arm).map(([, , value]) => [place(group, arm), y.map(value)]),
        )
        .filter((point) => point[1] !== null);
      const { colour } = looks(name, context.theme);
      return [
        {
          ...SILENT,
          z: 2,
          data: own,
          renderItem: (params, api) => {
            const [left, top] = api.coord(own[params.dataIndex]);
            const bottom = api.coord([0, y.option.min])[1];
            const width = Math.max(Math.min(pixels - 2, 14), 2);
            return {
              type: 'rect',
              silent: true,
              shape: { x: left - width / 2, y: top, width, height: bottom - top },
              style: { fill: colour, opacity: 0.45 },
            };
          },
        },
        dots(name, own, context.theme, { symbolSize: Math.max(Math.min(pixels, 9), 4) }),
      ];
    });
  }

  const cpu = barsPlot({
    unit: () => 'ns',
    label: () => 'CPU time for each operation',
    of: (cell) => cell.cpu_ns,
    columns: () => [{ key: 'cpu_ns', label: 'CPU for each operation', unit: 'ns' }],
    row: (cell) => [cell.cpu_ns],
  });
  const space = barsPlot({
    unit: () => 'B',
    label: () => 'Space used',
    of: (cell) => cell.space_used_bytes,
    columns: () => [{ key: 'space_used_bytes', label: 'space used', unit: 'B' }],
    row: (cell) => [cell.space_used_bytes],
  });

  /** Whether every cell that wrote to the device had asked for bytes, so that a factor can be given. */
  const asksBytes = (section) =>
    section.cells.filter((cell) => isNumber(cell.device_bytes)).every((cell) => isPositive(cell.asked_bytes));
  const device = barsPlot({
    axis: (section) => (asksBytes(section) ? 'bytes per byte asked' : 'for each operation'),
    unit: (section) => (asksBytes(section) ? '' : 'B'),
    label: (section) =>
      asksBytes(section) ? 'Bytes to the device for each byte asked' : 'Bytes to the device for each operation',
    of: (cell, section) =>
      !isNumber(cell.device_bytes)
        ? null
        : asksBytes(section)
          ? cell.device_bytes / cell.asked_bytes
          : cell.device_bytes,
    columns: (section) => [
      { key: 'device_bytes', label: 'to the device', unit: 'B' },
      { key: 'asked_bytes', label: 'asked', unit: 'B' },
      ...(asksBytes(section) ? [{ key: 'factor', label: 'for each byte asked', unit: 'ratio' }] : []),
    ],
    row: (cell, section) => [
      cell.device_bytes,
      cell.asked_bytes,
      ...(asksBytes(section) ? [cell.device_bytes / cell.asked_bytes] : []),
    ],
  });

  /** Times of the stages around the load. */
  const stages = {
    levels: true,
    log: true,
    logAtFirst: true,
    legend: () => true,
    view(context) {
      const { theme, log } = context;
      const cells = cellsWith(context, context.level, (cell) => cell.stages && Object.entries(cell.stages));
      if (!cells.length) return null;
      const names = [...new Set(cells.flatMap(([, , entries]) => entries.map(([stage]) => stage)))];
      const x = makeAxis(
        cells.flatMap(([, , entries]) => entries.map((entry) => entry[1])),
        { unit: 's', log, zero: true, count: context.width < 480 ? 3 : 6 },
      );
      // A little apart within a row, so that equal times do not cover each other.
      const apart = 0.6 / Math.max(context.arms.length, 1);
      const offset = (arm) => (context.arms.indexOf(arm) - (context.arms.length - 1) / 2) * apart;
      const y = {
        ...axisOption(
          -0.5,
          names.length - 0.5,
          names.map((_, index) => index),
          (index) => shorten(names[index], 16),
          '',
        ),
        inverse: true,
      };
      const drawn = cells.map(([arm, , entries]) =>
        dots(
          nameOf(context, arm),
          entries
            .map(([stage, seconds]) => [x.map(seconds), names.indexOf(stage) + offset(arm)])
            .filter((point) => point[0] !== null),
          theme,
        ),
      );
      const tip = (position) => {
        const stage = names[Math.min(Math.max(Math.round(position), 0), names.length - 1)];
        return tipBox(
          stage,
          cells.map(([arm, cell]) => [nameOf(context, arm), nameOf(context, arm), human(cell.stages[stage], 's', 3)]),
          theme,
        );
      };
      return {
        option: chartOption(context, { x: x.option, y, series: drawn, tip, pointer: 'y' }),
        height: 70 + names.length * Math.max(34, context.arms.length * 7),
        gist:
          names
            .map(
              (stage) =>
                `${stage}: ${inOrder(
                  cells.map(([arm, cell]) => [nameOf(context, arm), cell.stages[stage]]),
                  's',
                )}`,
            )
            .join('; ') + '.',
      };
    },
    table(context, all) {
      return {
        columns: [
          ...ARM_AND_THREADS,
          { key: 'stage', label: 'stage', unit: 'text' },
          { key: 'seconds', label: 'time', unit: 's' },
        ],
        rows: rowsOf(context, tableLevels(context, all), (cell, key) =>
          Object.entries(cell.stages || {}).map((entry) => [...key, ...entry]),
        ),
      };
    },
  };

  /** The same arms in several trials. */
  const compare = {
    levels: true,
    log: true,
    legend: () => 'switches',
    levelsOf: (context) =>
      [...new Set(sameSections(context).flatMap(([, section]) => section.levels))].sort((a, b) => a - b),
    view(context) {
      const rows = compareCells(context, [context.level])
        .filter(([, name, cell]) => isNumber(cell.rate) && !isHidden(context, name))
        .map(([trial, name, cell], index, all) => ({
          name,
          value: cell.rate,
          interval: cell.rate_interval,
          runs: cell.runs,
          label: `${index === 0 || all[index - 1][1] !== name ? `${name} · ` : ''}${trialLabel(trial)}`,
          heading: `${name}, ${trialLabel(trial)}, ${threadsText(cell.threads)}`,
        }));
      return rows.length ? forest(context, rows, context.section.unit) : null;
    },
    table(context, all) {
      const unit = context.section.unit;
      return {
        columns: [
          { key: 'trial', label: 'trial', unit: 'text' },
          ...ARM_AND_THREADS,
          { key: 'rate', label: 'rate', unit },
          { key: 'rate_low', label: 'low', unit },
          { key: 'rate_high', label: 'high', unit },
          { key: 'unit', label: '', unit: 'text', csvOnly: true },
          { key: 'runs', label: 'runs', unit: 'count' },
          { key: 'note', label: 'note', unit: 'text' },
        ],
        rows: compareCells(context, all ? compare.levelsOf(context) : [context.level]).map(([trial, name, cell]) => [
          trialLabel(trial),
          name,
          cell.threads,
          cell.rate,
          ...(cell.rate_interval || [null, null]),
          unit,
          cell.runs,
          outcomeText(cell),
        ]),
      };
    },
  };

  const isHidden = (context, name) => hiddenArms[context.trialIndex].has(context.trial.arms.indexOf(name));
  const sameSections = (context) =>
    trials.flatMap((trial) =>
      trial.sections
        .filter((section) => section.title === context.section.title && section.unit === context.section.unit)
        .slice(0, 1)
        .map((section) => [trial, section]),
    );

  /** Cells of all trials at some levels as [trial, name of the arm, cell], arm by arm. */
  function compareCells(context, levels) {
    const found = sameSections(context);
    const names = [...new Set(found.flatMap(([trial]) => trial.arms))];
    return levels.flatMap((level) =>
      names.flatMap((name) =>
        found.flatMap(([trial, section]) => {
          const cell = cellOf(section, trial.arms.indexOf(name), level);
          return cell ? [[trial, name, cell]] : [];
        }),
      ),
    );
  }

  /** What tells a trial from the others on the page. */
  function trialLabel(trial) {
    const differs = (key) => trials.some((other) => other[key] !== trial[key]);
    const number = trial.id === null || trial.id === undefined ? '' : `#${trial.id}`;
    const day = String(trial.started_at || '').slice(0, 10);
    const parts = [
      number,
      differs('name') && trial.name,
      differs('kernel') && trial.kernel,
      differs('device') && trial.device,
    ];
    const chosen = parts.filter(Boolean);
    if (chosen.length < 2 && day) chosen.push(day);
    return chosen.join(' ') || String(trial.name);
  }

  /** What the source of a claim published, pale behind what is measured here. */
  const original = {
    log: true,
    legend: () => true,
    choices: (context) => [
      {
        key: 'table',
        label: 'table',
        options: originalPictures(context).map(({ table, column }, index) => ({
          value: String(index),
          label: [shorten(table.title, 60), column === null ? '' : shorten(table.columns[column], 30)]
            .filter(Boolean)
            .join(': '),
        })),
      },
    ],
    view(context) {
      const picture = chosenOriginal(context);
      if (!picture) return null;
      const { table, column } = picture;
      return column === null
        ? originalOverlay(context, table, originalCurves(context, table))
        : originalBars(context, table, column);
    },
    table(context) {
      const { columns, rows } = (chosenOriginal(context) || { table: { columns: [], rows: [] } }).table;
      return {
        columns: columns.map((label, index) => ({
          key: String(label),
          label: String(label),
          unit: index ? 'plain' : 'text',
        })),
        rows: rows.map((row) => columns.map((_, index) => row[index])),
      };
    },
  };

  /** What can be drawn of a source's tables: one with curves of arms as a whole (`column` null), else each column. */
  function originalPictures(context) {
    return (context.trial.original || []).flatMap((table) => {
      if (originalCurves(context, table).length) return [{ table, column: null }];
      return table.columns
        .map((_, column) => ({ table, column }))
        .filter(({ column }) => column > 0 && table.rows.some((row) => isNumber(numberIn(row[column]))));
    });
  }

  const chosenOriginal = (context) => originalPictures(context)[Number(context.choice.table || 0)];

  /** The columns of a table that name arms, as [arm, column, points]; none if its rows are not levels. */
  function originalCurves(context, table) {
    const numbers = table.rows.map((row) => numberIn(row[0]));
    if (!numbers.length || !numbers.every(isPositive)) return [];
    return table.columns
      .map((column, index) => [column, index])
      .slice(1)
      .flatMap(([column, index]) => {
        const arm = armNamedIn(context, column);
        const points = table.rows
          .map((row, place) => [numbers[place], numberIn(row[index])])
          .filter((point) => isNumber(point[1]));
        return arm === null || !points.length ? [] : [[arm, String(column), points]];
      });
  }

  /** The number that a value is or begins with. */
  function numberIn(value) {
    if (isNumber(value)) return value;
    const found = /^\s*(\d+(?:\.\d+)?)/.exec(
      String(value === null || value === undefined ? '' : value).replace(/(\d)[,\u202f](?=\d{3})/g, '$1'),
    );
    return found ? Number(found[1]) : null;
  }

  /** The arm with the longest name that a text contains, whatever stands between its words, or null. */
  function armNamedIn(context, text) {
    const plain = (name) =>
      ` ${String(name)
        .toLowerCase()
        .split(/[^\p{L}\p{N}]+/u)
        .filter(Boolean)
        .join(' ')} `;
    const named = context.allArms
      .filter((arm) => plain(nameOf(context, arm)).trim() && plain(text).includes(plain(nameOf(context, arm))))
      .sort((a, b) => nameOf(context, b).length - nameOf(context, a).length);
    return named.length ? named[0] : null;
  }

  /** What was measured here and what was published, at a level. */
  function overlayTip(context, level, { now, then, table }) {
    const here = now.flatMap(([arm, cells]) =>
      cells
        .filter((cell) => cell.threads === level)
        .map((cell) => [
          nameOf(context, arm),
          `${nameOf(context, arm)}, here`,
          withInterval(cell.rate, cell.rate_interval, context.section.unit),
        ]),
    );
    const old = then.flatMap(([arm, column, points]) =>
      points
        .filter((point) => point[0] === level)
        .map((point) => [nameOf(context, arm), `then, ${column}`, human(point[1], String(table.unit || ''), 4)]),
    );
    return tipBox(threadsText(level), [...here, ...old], context.theme);
  }

  /** A source's curves, pale and wide on an axis of their own, behind those measured here. */
  function originalOverlay(context, table, curves) {
    const { section, theme, log } = context;
    const now = context.arms
      .map((arm) => [arm, section.cells.filter((cell) => cell.arm === arm && isNumber(cell.rate) && !cell.cannot)])
      .filter(([, cells]) => cells.length);
    const then = curves.filter(([arm]) => context.arms.includes(arm));
    const levels = [
      ...new Set([...section.levels, ...then.flatMap(([, , points]) => points.map((point) => point[0]))]),
    ].sort((a, b) => a - b);
    const x = levelAxis(levels);
    const left = makeAxis(
      now.flatMap(([, cells]) => cells.flatMap((cell) => [cell.rate, ...(cell.rate_interval || [])])),
      { unit: section.unit, log, zero: true, name: 'here' },
    );
    const right = makeAxis(
      then.flatMap(([, , points]) => points.map((point) => point[1])),
      { unit: String(table.unit || ''), log, zero: true, name: 'then' },
    );
    const drawn = [
      ...then.map(([arm, , points]) =>
        line(
          nameOf(context, arm),
          points.map(([level, value]) => [x.map(level), right.map(value)]),
          theme,
          {
            yAxisIndex: 1,
            z: 2,
            lineStyle: { ...line(nameOf(context, arm), [], theme).lineStyle, width: 5, opacity: 0.3, type: 'solid' },
            itemStyle: { color: looks(nameOf(context, arm), theme).colour, opacity: 0.4 },
          },
        ),
      ),
      ...now.flatMap(([arm, cells]) => {
        const points = cells
          .filter((cell) => cell.rate_interval)
          .map((cell) => [x.map(cell.threads), ...cell.rate_interval.map(left.map)]);
        return [
          errorBars(points, looks(nameOf(context, arm), theme).colour),
          line(
            nameOf(context, arm),
            cells.map((cell) => [x.map(cell.threads), left.map(cell.rate)]),
            theme,
          ),
        ];
      }),
    ];
    const subheading = `thin: here; pale: then, ${table.title} · ${context.subheading}`;
    const tip = (position) => overlayTip(context, x.unmap(position), { now, then, table });
    return {
      option: chartOption(
        { ...context, subheading },
        { x: x.option, y: [left.option, { ...right.option, position: 'right', splitLine: false }], series: drawn, tip },
      ),
      gist: `Here: ${rateGist(context)} Then: ${inOrder(
        then.map(([, column, points]) => [column, points[points.length - 1][1]]),
        String(table.unit || ''),
      )}.`,
      notes: [
        `Thin: measured here, left axis. Pale and wide: then, ${table.title}, right axis. ` +
          'Each axis has a scale of its own.',
      ],
    };
  }

  /** A column of a source's table as pale bars, one for each row. */
  function originalBars(context, table, column) {
    const { theme, log } = context;
    const unit = table.columns.length === 2 ? String(table.unit || '') : '';
    const entries = table.rows
      .map((row) => ({ label: String(row[0]), value: numberIn(row[column]), arm: armNamedIn(context, row[0]) }))
      .filter((entry) => isNumber(entry.value) && (entry.arm === null || context.arms.includes(entry.arm)));
    if (!entries.length) return null;
    const x = makeAxis(
      entries.map((entry) => entry.value),
      { unit, log, zero: true, count: context.width < 480 ? 3 : 6, name: shorten(table.columns[column], 40) },
    );
    const y = {
      type: 'category',
      inverse: true,
      data: entries.map((_, index) => String(index)),
      axisLabel: {
        interval: 0,
        color: theme.ink,
        formatter: (index) => (entries[index] ? rowLabel(entries[index], context) : ''),
      },
    };
    const colour = ({ arm }) => (arm === null ? theme.soft : looks(nameOf(context, arm), theme).colour);
    const drawn = [
      {
        type: 'bar',
        name: 'then',
        animation: false,
        barMaxWidth: 14,
        emphasis: { disabled: true },
        data: entries.map((entry) => ({
          value: Math.max(x.map(entry.value) === null ? x.option.min : x.map(entry.value), x.option.min),
          itemStyle: { color: colour(entry), opacity: 0.4 },
        })),
      },
    ];
    const tip = (_, params) => {
      const entry = entries[Number(params[0].axisValue)];
      const figure = human(entry.value, unit, 4);
      return tipBox(`then, ${table.title}: ${table.columns[column]}`, [[null, entry.label, figure]], theme);
    };
    const figures = entries.map((entry) => [entry.label, entry.value]);
    return {
      option: chartOption(
        { ...context, legend: false },
        { x: x.option, y, series: drawn, tip, pointer: 'y', shadow: true },
      ),
      height: 64 + entries.length * 22,
      gist: `Then, ${table.title}, ${table.columns[column]}: ${inOrder(figures, unit)}.`,
    };
  }

  const PLOTS = new Map(
    Object.entries({ throughput, latency, cdf, series, rounds, cpu, device, space, stages, compare, original }),
  );

  // ---------------------------------------------------------------- tables and files

  /** A figure of a table as people read it. */
  function cellText(value, unit) {
    if (value === null || value === undefined) return '–';
    if (unit === 'text' || unit === 'count' || unit === 'plain') return String(value);
    if (unit === 'quantile') return quantileText(value);
    if (unit === 'share') return percentText(value, 6);
    return unit === 'ratio' ? ratioText(value) : human(value, unit, 4);
  }

  /** An accessible table of a figure's numbers, the longest ones cut. */
  function tableElement({ columns, rows }, title) {
    const shown = columns.map((column, index) => [column, index]).filter(([column]) => !column.csvOnly);
    const isText = (column) => column.unit === 'text';
    const head = make(
      'tr',
      {},
      ...shown.map(([column]) =>
        make('th', { scope: 'col', class: isText(column) ? undefined : 'number', dir: 'auto' }, column.label),
      ),
    );
    const body = rows.slice(0, MOST_ROWS).map((row) =>
      make(
        'tr',
        {},
        ...shown.map(([column, index], place) =>
          make(
            place === 0 ? 'th' : 'td',
            {
              scope: place === 0 ? 'row' : undefined,
              class: isText(column) ? undefined : 'number',
              dir: isText(column) ? 'auto' : undefined,
            },
            cellText(row[index], column.unit),
          ),
        ),
      ),
    );
    const cut = rows.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${rows.length} rows; the CSV has all.` : null;
    return [
      make('table', {}, make('caption', {}, title), make('thead', {}, head), make('tbody', {}, ...body)),
      cut && make('p', { class: 'notes' }, cut),
    ];
  }

  /** RFC 4180, with the units in the names of the columns where they have one. */
  function csvText({ columns, rows }) {
    const field = (value) => {
      const text = value === null || value === undefined ? '' : String(value);
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    return [columns.map((column) => column.key), ...rows].map((row) => row.map(field).join(',')).join('\r\n') + '\r\n';
  }

  /** Hands a file to the reader. */
  function save(name, type, content) {
    const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    make('a', { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  // ---------------------------------------------------------------- figures

  /** Width and height of files, in pixels. */
  const EXPORT_WIDTH = 900;
  const EXPORT_HEIGHT = 480;
  /** Width of a figure in print: half of the paper, where the style sheet puts it. */
  const PRINT_WIDTH = 340;
  const CHART_HEIGHT = 280;

  /** One placeholder of the page with its chart, controls and table. */
  class Figure {
    /** @param {HTMLElement} element `figure.plot` */
    constructor(element) {
      this.element = element;
      this.plot = PLOTS.get(element.dataset.plot);
      this.trialIndex = Number(element.dataset.trial || 0);
      this.sectionIndex = Number(element.dataset.section || 0);
      this.trial = trials[this.trialIndex];
      this.section = this.trial && this.trial.sections[this.sectionIndex];
      this.choice = {};
      this.log = Boolean(this.plot && this.plot.logAtFirst);
      const heading = element.querySelector(
        'figcaption h1, figcaption h2, figcaption h3, figcaption h4, figcaption h5',
      );
      this.title = (heading || element).textContent.trim();
      this.chart = null;
      this.drawn = false;
      /** Whether it is in or near the window. */
      this.near = false;
      /** Whether drawing it has failed. */
      this.broken = false;
      /** Whether something was chosen since it was drawn. */
      this.stale = false;
    }

    /** What a plot needs to know. */
    context(more = {}) {
      const allArms = this.trial.arms.map((_, index) => index);
      const hidden = hiddenArms[this.trialIndex];
      const context = {
        trial: this.trial,
        trialIndex: this.trialIndex,
        section: this.section,
        allArms,
        arms: allArms.filter((arm) => !hidden.has(arm)),
        log: this.log,
        choice: this.choice,
        theme: screenTheme(),
        width: printing ? PRINT_WIDTH : this.box.clientWidth || 480,
        ...more,
      };
      if (this.plot.levels) context.level = this.level(context);
      return context;
    }

    levels(context) {
      return this.plot.levelsOf ? this.plot.levelsOf(context) : this.section.levels;
    }

    /** The chosen level; at first the highest at which anything was measured. */
    level(context) {
      const levels = this.levels(context);
      const chosen = chosenLevel.get(this.section);
      if (levels.includes(chosen)) return chosen;
      const measured = levels.filter((level) =>
        this.section.cells.some((cell) => cell.threads === level && isNumber(cell.rate)),
      );
      return (measured.length ? measured : levels)[(measured.length || levels.length) - 1];
    }

    /** Makes the controls and draws, once. */
    draw() {
      if (this.drawn) return;
      this.drawn = true;
      this.element.classList.add('drawn');
      try {
        this.build();
        this.render();
      } catch (error) {
        this.broken = true;
        this.element.append(
          make('p', { class: 'notes' }, 'This figure could not be drawn; the tables of the page have its numbers.'),
        );
        console.error(`${this.element.id}: ${error.stack}`);
      }
    }

    build() {
      this.box = this.element.appendChild(make('div', { class: 'chart', role: 'img', 'aria-label': this.title }));
      const context = this.context();
      this.tools = this.makeTools(context);
      this.legend = this.plot.legend(context) ? this.makeLegend() : null;
      this.notes = make('div', { class: 'notes' });
      this.table = make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': `figures: ${this.title}` });
      this.details = make('details', { toggle: () => this.fillTable() }, make('summary', {}, 'figures'), this.table);
      this.box.before(this.tools, ...[this.legend].filter(Boolean));
      this.box.after(this.notes, this.details);
      new ResizeObserver(() => this.resized()).observe(this.box);
    }

    makeTools(context) {
      const left = [];
      for (const choice of this.plot.choices ? this.plot.choices(context) : []) {
        if (choice.options.length > 1)
          left.push(selectElement(choice.label, choice.options, (value) => this.choose(choice.key, value)));
      }
      const levels = this.plot.levels ? this.levels(context) : [];
      if (levels.length > 1) {
        const options = levels.map((level) => ({ value: String(level), label: threadsText(level) }));
        const label = selectElement('level', options, (value) => chooseLevel(this.section, Number(value)));
        this.levelSelect = label.querySelector('select');
        left.push(label);
      }
      if (this.plot.log) {
        const box = make('input', {
          type: 'checkbox',
          change: () => {
            this.log = box.checked;
            this.render();
          },
        });
        box.checked = this.log;
        left.push(make('label', { title: 'logarithmic scale' }, box, 'log'));
      }
      const right = [
        ['SVG', () => this.saveSvg()],
        ['PNG', () => this.savePng()],
        ['CSV', () => this.saveCsv()],
      ].map(([name, action]) =>
        make(
          'button',
          {
            type: 'button',
            title: `save this figure as ${name}`,
            'aria-label': `${name}: ${this.title}`,
            click: action,
          },
          name,
        ),
      );
      const link = make(
        'a',
        {
          href: `#${this.element.id}`,
          title: 'link to this figure',
          'aria-label': `# link to this figure: ${this.title}`,
        },
        '#',
      );
      return make(
        'div',
        { class: 'tools' },
        make('div', { class: 'choose' }, ...left),
        make('div', { class: 'take' }, ...right, link),
      );
    }

    /** Buttons that hide arms; one stop for the tabulator key, arrow keys within. */
    makeLegend() {
      const buttons = this.trial.arms.map((name, arm) =>
        make(
          'button',
          {
            type: 'button',
            'aria-pressed': 'true',
            tabindex: arm === 0 ? 0 : -1,
            title: String(name),
            click: () => toggleArm(this.trialIndex, arm),
          },
          make('span', { class: 'sign' }),
          make('span', { class: 'name', dir: 'auto' }, String(name)),
        ),
      );
      const move = (event) => {
        const at = buttons.indexOf(document.activeElement);
        const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
        if (to === undefined || at < 0) return;
        event.preventDefault();
        const next = (to + buttons.length) % buttons.length;
        buttons.forEach((button, index) => button.setAttribute('tabindex', index === next ? 0 : -1));
        buttons[next].focus();
      };
      return make('div', { class: 'legend', role: 'toolbar', 'aria-label': 'arms shown', keydown: move }, ...buttons);
    }

    choose(key, value) {
      this.choice[key] = value;
      this.render();
    }

    /** Draws anew, at once if it can be seen, else when it comes into view. */
    refresh() {
      if (!this.drawn || this.broken) return;
      if (this.near || printing) {
        this.render();
        return;
      }
      this.markStale(true);
      this.pressLegend();
    }

    markStale(stale) {
      this.stale = stale;
      this.element.classList.toggle('stale', stale);
    }

    /** Brings it up to date. */
    update() {
      if (!this.drawn) this.draw();
      else if (this.stale && !this.broken) this.render();
    }

    /** Draws as everything is chosen now. */
    render() {
      this.markStale(false);
      const context = this.context();
      const view = context.arms.length ? this.plot.view(context) : null;
      if (this.levelSelect) this.levelSelect.value = String(context.level);
      this.paintLegend(context.theme);
      this.box.hidden = !view;
      if (view) this.paint(view, context);
      else this.dispose();
      const notes = view
        ? [...(view.notes || []), ...(this.plot === throughput ? missingText(context) : [])]
        : [this.emptyText(context)];
      this.notes.replaceChildren(...notes.map((note) => make('p', { dir: 'auto' }, note)));
      this.notes.prepend(make('p', { class: 'on-paper' }, this.chosenText(context)));
      if (view && view.alert)
        this.notes.prepend(make('p', {}, make('strong', { class: 'badge unequal' }, 'unequal'), ` ${view.alert}`));
      if (this.details.open) this.fillTable();
      else this.table.replaceChildren();
    }

    paint(view, context) {
      const height = view.height || CHART_HEIGHT;
      this.box.style.height = `${height}px`;
      this.box.setAttribute('aria-label', [this.title, view.gist].filter(Boolean).join('. '));
      if (!this.chart) this.chart = echarts.init(this.box, null, { renderer: 'svg', width: context.width, height });
      this.chart.resize({ width: context.width, height, silent: true });
      this.chart.setOption(view.option, { notMerge: true });
      const drawing = this.box.querySelector('svg');
      drawing.setAttribute('viewBox', `0 0 ${context.width} ${height}`);
      drawing.setAttribute('aria-hidden', 'true');
      this.width = context.width;
    }

    pressLegend() {
      if (!this.legend) return;
      const hidden = hiddenArms[this.trialIndex];
      [...this.legend.children].forEach((button, arm) => button.setAttribute('aria-pressed', String(!hidden.has(arm))));
    }

    paintLegend(theme) {
      this.pressLegend();
      if (!this.legend || this.legendTheme === theme) return;
      this.legendTheme = theme;
      [...this.legend.children].forEach((button, arm) =>
        button.firstChild.replaceChildren(swatch(this.trial.arms[arm], theme)),
      );
    }

    /** What is chosen, for paper, where no control shows it. */
    chosenText(context) {
      const choices = this.plot.choices ? this.plot.choices(context) : [];
      const words = choices.map(
        ({ key, options }) => options.find(({ value }) => value === this.choice[key]) || options[0],
      );
      return [
        context.level === undefined ? '' : threadsText(context.level),
        ...words.map((option) => (option ? option.label : '')),
      ]
        .filter(Boolean)
        .join(', ');
    }

    emptyText(context) {
      if (!context.arms.length) return 'All arms are hidden.';
      return ['Nothing was recorded for this figure.', ...missingText(context)].join(' ');
    }

    resized() {
      if (!printing && this.chart && this.box.clientWidth && this.box.clientWidth !== this.width) this.render();
    }

    dispose() {
      if (this.chart) this.chart.dispose();
      this.chart = null;
    }

    fillTable() {
      if (this.details.open)
        this.table.replaceChildren(...tableElement(this.plot.table(this.context(), false), this.title).filter(Boolean));
    }

    /** What a file shows: always light, complete in itself, and of one width. */
    exportView() {
      const plain = this.context();
      const legend = this.plot.legend(plain) === true;
      const where = [this.section.title, plain.level === undefined ? '' : threadsText(plain.level)]
        .filter(Boolean)
        .join(', ');
      const context = this.context({
        theme: THEMES.light,
        exporting: true,
        width: EXPORT_WIDTH,
        legend,
        heading: this.title,
        subheading: [this.trial.name, where, this.trial.kernel, `fstrial ${root.fstrial}`].filter(Boolean).join(' · '),
      });
      const view = context.arms.length ? this.plot.view(context) : null;
      return view && { option: view.option, height: Math.max(EXPORT_HEIGHT, (view.height || 0) + 90) };
    }

    /** Draws the file's picture by `renderer` and hands the chart to `use`. */
    exportWith(options, use) {
      const view = this.exportView();
      if (!view) return;
      const chart = echarts.init(options.ssr ? null : make('div'), null, {
        ...options,
        width: EXPORT_WIDTH,
        height: view.height,
      });
      chart.setOption(view.option);
      use(chart);
      chart.dispose();
    }

    saveSvg() {
      this.exportWith({ renderer: 'svg', ssr: true }, (chart) =>
        save(`${this.element.id}.svg`, 'image/svg+xml', chart.renderToSVGString()),
      );
    }

    savePng() {
      this.exportWith({ renderer: 'canvas', devicePixelRatio: 2 }, (chart) => {
        chart
          .renderToCanvas({ pixelRatio: 2 })
          .toBlob((blob) => save(`${this.element.id}.png`, 'image/png', blob), 'image/png');
      });
    }

    saveCsv() {
      save(`${this.element.id}.csv`, 'text/csv;charset=utf-8', csvText(this.plot.table(this.context(), true)));
    }
  }

  /** What of a section is missing and why, a line for each arm. */
  function missingText(context) {
    return context.arms.flatMap((arm) => {
      const own = context.section.cells.filter((cell) => cell.arm === arm);
      const failed = own.filter((cell) => cell.failed).map((cell) => cell.threads);
      const reasons = [...new Set(own.filter((cell) => cell.cannot).map((cell) => String(cell.cannot)))];
      return [
        ...(failed.length
          ? [
              `${nameOf(context, arm)} failed with ${listText(
                failed
                  .slice(0, -1)
                  .map(String)
                  .concat(threadsText(failed[failed.length - 1])),
              )}.`,
            ]
          : []),
        ...reasons.map((reason) => `${nameOf(context, arm)} cannot do this: ${reason}`),
      ];
    });
  }

  /** A labelled select; options with a `group` are put under its name. */
  function selectElement(label, options, change) {
    const groups = new Map();
    for (const { value, label: text, group } of options) {
      const option = make('option', { value }, text);
      groups.set(group, [...(groups.get(group) || []), option]);
    }
    const children = [...groups].flatMap(([group, members]) =>
      group ? [make('optgroup', { label: group }, ...members)] : members,
    );
    const select = make('select', { change: () => change(select.value) }, ...children);
    return make('label', {}, label, select);
  }

  // ---------------------------------------------------------------- the page

  const figures = [...document.querySelectorAll('figure.plot')]
    .map((element) => new Figure(element))
    .filter((figure) => figure.plot && figure.trial && figure.section);
  const figureOf = new Map(figures.map((figure) => [figure.element, figure]));
  const refreshWhere = (condition) => figures.filter(condition).forEach((figure) => figure.refresh());

  function toggleArm(trialIndex, arm) {
    const hidden = hiddenArms[trialIndex];
    if (!hidden.delete(arm)) hidden.add(arm);
    refreshWhere((figure) => figure.trialIndex === trialIndex);
  }

  function chooseLevel(section, level) {
    chosenLevel.set(section, level);
    refreshWhere((figure) => figure.section === section && figure.plot.levels);
  }

  // Figures that come near the window are drawn one for each frame, so that scrolling goes on between them.
  const waiting = new Set();
  function drawNext() {
    const [figure] = waiting;
    waiting.delete(figure);
    figure.update();
    if (waiting.size) requestAnimationFrame(drawNext);
  }
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        const figure = figureOf.get(target);
        figure.near = isIntersecting;
        if (!isIntersecting || (figure.drawn && !figure.stale)) continue;
        if (!waiting.size) requestAnimationFrame(drawNext);
        waiting.add(figure);
      }
    },
    { rootMargin: '400px' },
  );
  figures.forEach((figure) => near.observe(figure.element));

  /** Draws the figure that the address names, so that the page stands still when it is scrolled to. */
  function followLink() {
    let name = '';
    try {
      name = decodeURIComponent(location.hash.slice(1));
    } catch {
      return; // an address that names nothing
    }
    const target = name && document.getElementById(name);
    if (!target) return;
    for (let around = target.closest('details'); around; around = around.parentElement.closest('details')) {
      around.open = true;
    }
    const figure = figureOf.get(target.closest('figure.plot'));
    if (figure) figure.update();
    target.scrollIntoView();
  }

  function preparePrint() {
    if (printing) return;
    printing = true;
    // What is folded up is not printed either.
    const seen = figures.filter(({ element }) => element.getClientRects().length > 0);
    seen.forEach((figure) => (figure.drawn ? figure.refresh() : figure.draw()));
  }

  function endPrint() {
    if (!printing) return;
    printing = false;
    refreshWhere(() => true);
  }

  window.addEventListener('hashchange', followLink);
  window.addEventListener('beforeprint', preparePrint);
  window.addEventListener('afterprint', endPrint);
  window.matchMedia('print').addEventListener('change', (event) => (event.matches ? preparePrint() : endPrint()));
  darkScreen.addEventListener('change', () => refreshWhere(() => true));
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape')
      figures.forEach((figure) => figure.chart && figure.chart.dispatchAction({ type: 'hideTip' }));
  });
  followLink();
})();
