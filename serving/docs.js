"use strict";

fetch("openapi.json").then((response) => response.json()).then((api) => {
  // The API is beside this page, under the path of a proxy too.
  const spec = { ...api, servers: [{ url: new URL(".", location).href }] };
  SwaggerUIBundle({ spec, dom_id: "#docs", deepLinking: true, validatorUrl: null, defaultModelsExpandDepth: -1 });
});
