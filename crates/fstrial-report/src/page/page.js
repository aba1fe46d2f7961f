/** @file Tells the value under the pointer, and saves pictures as SVG and CSV. The page is complete without it. */
'use strict';

(() => {
  const bar = document.getElementById('value');

  // ---------------------------------------------------------------- values

  const powers = (base, names) => names.map((name, power) => [base ** power, name]);
  const BYTES = ['B', 'KiB', 'MiB', 'GiB'];
  const STEPS = new Map([
    ['ns', powers(1000, ['ns', 'µs', 'ms', 's'])],
    ['bytes', powers(1024, BYTES)],
    ['bytes/file', powers(1024, BYTES)],
    ['bytes/s', powers(1024, BYTES.map((name) => `${name}/s`))],
    ['1', [[1, '']]],
  ]);

  /** A number of a unit, for people: four digits that count. */
  function human(number, unit) {
    const steps = STEPS.get(unit) || [[1, unit]];
    const [size, name] = steps.findLast(([least]) => Math.abs(number) >= least) || steps[0];
    return `${(number / size).toLocaleString('en', { maximumSignificantDigits: 4 })} ${name}`.trim();
  }

  /** Places in a drawing: of marks each by itself, of a line each from the one before. */
  function places(path) {
    const d = path.getAttribute('d');
    if (path.matches('.marks')) return [...d.matchAll(/M([\d.]+) ([\d.]+)/g)].map(([, left, top]) => [+left, +top]);
    const numbers = (d.match(/-?[\d.]+/g) || []).map(Number);
    let [left, top] = [0, 0];
    return numbers.flatMap((number, at) => {
      if (at % 2 === 0) {
        left += number;
        return [];
      }
      top += number;
      return [[left, top]];
    });
  }

  /** The numbers of a series: places, which it may share with all of its chart, and values. */
  function numbers(series) {
    const places = series.dataset.x ?? series.closest('svg').dataset.x;
    return [places, series.dataset.y].map((list) => list.split(' '));
  }

  /** Whether the reader has switched its arm off. */
  const isPale = (element) => element && getComputedStyle(element).opacity < 0.5;

  /** The points of a series that can be seen: place in the drawing, name, values. */
  function points(series) {
    const path = series.querySelector('.marks, .line');
    if (!path || isPale(series) || isPale(series.closest('.drawing'))) return [];
    const [x, y] = numbers(series);
    return places(path).map(([left, top], at) => ({ left, top, series, x: +x[at], y: +y[at] }));
  }

  function nearest(chart, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
    const far = (point) => Math.hypot(point.left - at.x, point.top - at.y);
    const all = [...chart.querySelectorAll('[data-y]')].flatMap(points);
    return all.reduce((best, point) => (best && far(best) <= far(point) ? best : point), null);
  }

  /** Says what is under the pointer; nothing where there is nothing. */
  function tell(event) {
    const chart = event.target.closest('svg.chart');
    const row = event.target.closest('svg.forest g');
    const point = chart && nearest(chart, event);
    const text = (kind) => [...row.querySelectorAll(kind)].map(({ textContent }) => textContent).join(' ');
    let words = row ? `${text('.label')}: ${text('.figure')}` : '';
    if (point) {
      const { xname, unit } = chart.dataset;
      words = `${point.series.dataset.name}: ${human(point.y, unit)}, ${xname} ${human(point.x, '')}`;
    }
    if (bar.textContent !== words) bar.textContent = words;
  }
  document.addEventListener('pointermove', tell);
  document.addEventListener('pointerdown', tell);

  // ---------------------------------------------------------------- files

  function save(name, type, text) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  const LOOKS = ['fill', 'fill-opacity', 'stroke', 'stroke-opacity', 'stroke-width', 'stroke-dasharray', 'stroke-linecap', 'opacity'];
  const FONT = ['font-family', 'font-size', 'font-weight', 'text-anchor'];

  /** A copy with the looks that the original has on the page. */
  function styled(original) {
    const copy = original.cloneNode(true);
    const originals = [original, ...original.querySelectorAll('*')];
    [copy, ...copy.querySelectorAll('*')].forEach((element, at) => {
      const style = getComputedStyle(originals[at]);
      [...LOOKS, ...(element.tagName === 'text' ? FONT : [])].forEach((name) => {
        element.setAttribute(name, style.getPropertyValue(name));
      });
      element.removeAttribute('class');
    });
    return copy;
  }

  /** A drawing as a file: with a list of its arms, which the page has above all pictures. */
  function drawing(svg) {
    const copy = styled(svg);
    const [left, top, width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
    const arms = [...svg.querySelectorAll('[data-arm]')].filter((series) => !isPale(series));
    const signs = arms.length > 0 ? svg.closest('.trial').querySelectorAll('.choose.arms .sign') : [];
    arms.forEach(({ dataset }, at) => {
      const sign = styled(signs[dataset.arm]);
      const name = styled(svg.querySelector('.axis text'));
      const place = { x: left + 4, y: top + height + 17 * at, width: 24, height: 10 };
      Object.entries(place).forEach(([key, value]) => sign.setAttribute(key, value));
      name.setAttribute('x', place.x + 32);
      name.setAttribute('y', place.y + 9);
      name.setAttribute('text-anchor', 'start');
      name.textContent = dataset.name;
      copy.append(sign, name);
    });
    copy.setAttribute('viewBox', [left, top, width, height + 17 * arms.length].join(' '));
    copy.setAttribute('xmlns', 'http://www.w3.org/2000/svg');
    copy.setAttribute('style', `background: ${getComputedStyle(document.documentElement).backgroundColor}`);
    return new XMLSerializer().serializeToString(copy);
  }

  /** A field of a CSV file. One that a spreadsheet would take for a formula becomes text. */
  function field(text) {
    const safe = /^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  }

  function rows(svg) {
    if (svg.matches('.forest')) {
      let heading = '';
      const of = (row) => {
        heading = row.dataset.of || heading;
        return [heading, ...['name', 'value', 'low', 'high'].map((name) => row.dataset[name] || '')];
      };
      return [['of', 'name', 'value', 'low', 'high'], ...[...svg.querySelectorAll('[data-name]')].map(of)];
    }
    const lines = [...svg.querySelectorAll('[data-y]')].flatMap((series) => {
      const [places, values] = numbers(series);
      return places.map((x, at) => [series.dataset.name, x, values[at]]);
    });
    return [['name', svg.dataset.xname, svg.dataset.unit || svg.dataset.yname], ...lines];
  }

  for (const svg of document.querySelectorAll('figure svg')) {
    const figure = svg.closest('figure');
    const others = [...figure.querySelectorAll('svg')];
    const name = figure.id + (others.length > 1 ? `-${others.indexOf(svg) + 1}` : '');
    const csv = () => rows(svg).map((row) => `${row.map(field).join(',')}\r\n`).join('');
    const files = { SVG: ['image/svg+xml', () => drawing(svg)], CSV: ['text/csv;charset=utf-8', csv] };
    const buttons = Object.entries(files).map(([kind, [type, make]]) => {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = kind;
      button.setAttribute('aria-label', `${kind}: ${svg.getAttribute('aria-label').slice(0, 80)}`);
      button.addEventListener('click', () => save(`${name}.${kind.toLowerCase()}`, type, make()));
      return button;
    });
    const take = document.createElement('div');
    take.className = 'take';
    take.append(...buttons);
    svg.before(take);
  }
})();
