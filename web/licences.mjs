// The licences of what the page has in it of others, which go with it: `/licences.txt`.
import { existsSync, readFileSync } from "node:fs";

const read = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const { dependencies } = JSON.parse(read("package.json"));
for (const [name, version] of Object.entries(dependencies)) {
  const has = (file) => existsSync(new URL(`node_modules/${name}/${file}`, import.meta.url));
  const of = (file) => read(`node_modules/${name}/${file}`);
  // One that comes without its text names it at the end of what it says of itself.
  const named = () => `${of("README.md").replace(/^[^]*# LICENSE/, "")}\n${read("../LICENSE-APACHE").trimEnd()}`;
  console.log(`${name} ${version}, of which model.js has parts:\n\n${(has("LICENSE") ? of("LICENSE") : named()).trim()}\n`);
}
