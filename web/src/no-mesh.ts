/** In place of what reads meshes: models have none here, and the gateway refuses those that do. */
export class STLLoader {}
export class ColladaLoader {}
