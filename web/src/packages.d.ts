/** It has no types of its own, and those that others wrote for it bring packages that nothing here needs. */
declare module "three";
