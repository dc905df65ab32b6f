/** An element of the page, which has it. */
export const element = <T extends HTMLElement>(id: string): T => document.getElementById(id) as T;
