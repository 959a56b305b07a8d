// Bundles the page into ../assets, or into the directory that is named. The same sources give
// the same bytes: esbuild and uPlot are pinned by package-lock.json.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, '..', 'assets');
await mkdir(out, { recursive: true });
await build({
  entryPoints: { app: join(here, 'src', 'main.js') }, outdir: out, absWorkingDir: here, bundle: true, minify: true,
  format: 'esm', target: ['es2022', 'chrome110', 'firefox115', 'safari16.4'], legalComments: 'none', charset: 'utf8',
});
for (const name of ['index.html', 'icon.svg']) await copyFile(join(here, 'src', name), join(out, name));
const licence = await readFile(join(here, 'node_modules', 'uplot', 'LICENSE'), 'utf8');
await writeFile(join(out, 'licenses.txt'), `app.js and app.css contain uPlot (https://github.com/leeoniya/uPlot):\n\n${licence}`);

// What was built from what: a test finds sources that were changed and not built.
const sources = createHash('sha256');
const names = ['build.mjs', 'package-lock.json', ...(await readdir(join(here, 'src'))).map((n) => `src/${n}`)].sort();
for (const name of names) sources.update(`${name}\0`).update(await readFile(join(here, name))).update('\0');
await writeFile(join(out, 'sources.txt'), `${sources.digest('hex')}\n`);
