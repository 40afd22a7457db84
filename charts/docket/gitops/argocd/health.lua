-- Health of Tenant and Webhook in Argo CD; the same for both kinds. In the ConfigMap argocd-cm:
--   resource.customizations.health.docket.dev_Tenant: |
--     <this file>
--   resource.customizations.health.docket.dev_Webhook: |
--     <this file>
local health = { status = "Progressing", message = "Waiting for the operator" }
if obj.metadata.deletionTimestamp ~= nil then
  return { status = "Progressing", message = "Being deleted" }
end
if obj.spec ~= nil and obj.spec.suspend == true then
  return { status = "Suspended", message = "spec.suspend is true" }
end
if obj.status == nil or obj.status.conditions == nil then
  return health
end
-- A status about an older generation says nothing about this one.
if obj.status.observedGeneration ~= nil and obj.metadata.generation ~= nil
    and obj.status.observedGeneration < obj.metadata.generation then
  return health
end
local ready = nil
for _, condition in ipairs(obj.status.conditions) do
  if condition.type == "Stalled" and condition.status == "True" then
    return { status = "Degraded", message = condition.reason .. ": " .. (condition.message or "") }
  end
  if condition.type == "Ready" then
    ready = condition
  end
end
if ready ~= nil then
  health.message = ready.reason .. ": " .. (ready.message or "")
  if ready.status == "True" then
    health.status = "Healthy"
  elseif ready.reason == "Paused" or ready.reason == "TenantSuspended" then
    health.status = "Suspended"
  end
end
return health
